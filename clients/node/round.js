// The Node client `memcached` (text protocol) against host:port.
'use strict';
const assert = require('node:assert');
const { promisify } = require('node:util');
const Memcached = require('memcached');

async function main(server) {
  const client = new Memcached(server, { timeout: 5000, retries: 0 });
  const call = (name) => promisify(client[name]).bind(client);
  const fails = (promise) => promise.then((value) => value === false, () => true);
  const [get, gets, set, add, replace, append, prepend, cas, incr, decr, del, touch, getMulti, version, stats] = [
    'get', 'gets', 'set', 'add', 'replace', 'append', 'prepend', 'cas', 'incr', 'decr', 'del', 'touch', 'getMulti', 'version', 'stats',
  ].map(call);

  assert.equal(await set('js-a', 'one', 1000), true);
  assert.equal(await get('js-a'), 'one');
  assert.equal(await get('js-none'), undefined);
  assert.ok(await fails(add('js-a', 'x', 0)));
  assert.equal(await add('js-b', 'x', 0), true);
  assert.equal(await replace('js-b', 'y', 0), true);
  assert.ok(await fails(replace('js-none', 'y', 0)));
  assert.equal(await append('js-b', 'z'), true);
  assert.equal(await prepend('js-b', 'x'), true);
  assert.equal(await get('js-b'), 'xyz');
  assert.equal(await set('js-object', { n: [1, 2] }, 0), true);
  assert.deepEqual(await get('js-object'), { n: [1, 2] });
  assert.equal(await set('js-n', 10, 0), true);
  assert.equal(await incr('js-n', 5), 15);
  assert.equal(await decr('js-n', 100), 0);
  assert.ok(await fails(incr('js-none', 1)));
  const seen = await gets('js-a');
  assert.equal(await cas('js-a', 'two', seen.cas, 0), true);
  assert.ok(await fails(cas('js-a', 'three', seen.cas, 0)));
  const keys = Array.from({ length: 100 }, (_, n) => `js-many${n}`);
  await Promise.all(keys.map((key, n) => set(key, n, 0)));
  const many = await getMulti([...keys, 'js-none']);
  assert.equal(Object.keys(many).length, 100);
  assert.equal(many['js-many42'], 42);
  assert.equal(await touch('js-a', 100), true);
  const thousand = Array.from({ length: 1000 }, (_, n) => `js-thousand${n}`);
  await Promise.all(thousand.map((key, n) => set(key, `value ${n}`, 0)));
  const all = await getMulti(thousand);
  thousand.forEach((key, n) => assert.equal(all[key], `value ${n}`));
  const large = 'x'.repeat(1000000);
  assert.equal(await set('js-large', large, 0), true);
  assert.equal(await get('js-large'), large);
  assert.equal(await del('js-a'), true);
  assert.equal(await get('js-a'), undefined);
  assert.equal(await set('js-soon', 'x', 1), true);
  await new Promise((resolve) => setTimeout(resolve, 2100));
  assert.equal(await get('js-soon'), undefined);
  assert.ok((await version())[0].version);
  assert.ok((await stats())[0].pid);
  client.end();
  console.log('memcached (Node): its whole round');
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
