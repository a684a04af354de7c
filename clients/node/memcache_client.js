// The Node client `memcache-client` (text protocol) against host:port.
'use strict';
const assert = require('node:assert');
const { MemcacheClient } = require('memcache-client');

async function main(server) {
  const client = new MemcacheClient({ server, cmdTimeout: 10000 });
  const fails = (promise) => promise.then(() => false, () => true);
  const value = async (key) => (await client.get(key))?.value;

  await client.set('mcc-a', 'one', { lifetime: 1000 });
  assert.equal(await value('mcc-a'), 'one');
  assert.equal(await value('mcc-none'), undefined);
  assert.ok(await fails(client.add('mcc-a', 'x')));
  await client.add('mcc-b', 'x');
  await client.replace('mcc-b', 'y');
  assert.ok(await fails(client.replace('mcc-none', 'y')));
  await client.append('mcc-b', 'z');
  await client.prepend('mcc-b', 'x');
  assert.equal(await value('mcc-b'), 'xyz');
  await client.set('mcc-object', { n: [1, 2] });
  assert.deepEqual(await value('mcc-object'), { n: [1, 2] });
  await client.set('mcc-n', '10');
  assert.equal(Number(await client.incr('mcc-n', 5)), 15);
  assert.equal(Number(await client.decr('mcc-n', 100)), 0);
  const seen = await client.gets('mcc-a');
  await client.cas('mcc-a', 'two', { casUniq: seen.casUniq });
  assert.ok(await fails(client.cas('mcc-a', 'three', { casUniq: seen.casUniq })));
  const keys = Array.from({ length: 200 }, (_, n) => `mcc-many${n}`);
  await Promise.all(keys.map((key) => client.set(key, `of ${key}`)));
  const many = await client.get([...keys, 'mcc-none']);
  keys.forEach((key) => assert.equal(many[key].value, `of ${key}`));
  await client.touch('mcc-a', 100);
  const large = 'x'.repeat(1000000);
  await client.set('mcc-large', large);
  assert.equal(await value('mcc-large'), large);
  await client.delete('mcc-a');
  assert.equal(await value('mcc-a'), undefined);
  assert.ok((await client.version())[0]);
  client.shutdown();
  console.log('memcache-client: its whole round');
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
