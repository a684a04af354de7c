// memjs, whose only protocol is the binary one, against host:port: it is refused, and told so at once.
'use strict';
const assert = require('node:assert');
const memjs = require('memjs');

/// Within which it must know, milliseconds, of the best of some tries: other processes may take the machine.
const LIMIT_MS = 100;
const TRIES = 5;

async function refusal(server) {
  const client = memjs.Client.create(server, { timeout: 5, retries: 0 });
  const start = process.hrtime.bigint();
  const answer = await client.get('a').then((value) => ({ value }), (error) => ({ error }));
  const ms = Number(process.hrtime.bigint() - start) / 1e6;
  client.close();
  assert.ok(answer.error, 'a client of the binary protocol is refused');
  return { ms, text: answer.error.message };
}

async function main(server) {
  const refusals = [];
  for (let nth = 0; nth < TRIES; nth += 1) refusals.push(await refusal(server));
  const times = refusals.map((refusal) => refusal.ms).sort((a, b) => a - b);
  console.log(`memjs: refused after ${times.map((ms) => ms.toFixed(1)).join(', ')} ms: ${refusals[0].text}`);
  assert.ok(times[0] <= LIMIT_MS, `refused within ${LIMIT_MS} ms`);
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
