/*
 * libdrover: clients of a drover service.
 *
 * A client is for the thread that connected it; connect one in each thread. Keys have 1 to 250 bytes, any bytes. Values that a
 * client has shown are valid until its next call. Functions that fail return a negative status, and drover_error() has the text.
 *
 * cbindgen has made this file; cargo xtask header writes it anew.
 */

#ifndef DROVER_H
#define DROVER_H

#include <stddef.h>
#include <stdint.h>

/*
 Condition of a PUT: none.
 */
#define DROVER_ALWAYS 0

/*
 The key does not exist.
 */
#define DROVER_IF_ABSENT 1

/*
 The key exists.
 */
#define DROVER_IF_PRESENT 2

/*
 The key's item has the version of the structure.
 */
#define DROVER_IF_VERSION 3

/*
 Kind of an operation: look up a key.
 */
#define DROVER_OP_GET 0

/*
 Look up a key, with version and flags.
 */
#define DROVER_OP_GET_ITEM 1

/*
 Store a value.
 */
#define DROVER_OP_PUT 2

/*
 Remove a key, if the condition holds.
 */
#define DROVER_OP_DELETE 3

/*
 Have a key expire.
 */
#define DROVER_OP_TOUCH 4

/*
 What came of a call. Negative: it failed, and `drover_error` has the text.
 */
enum drover_status
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
  /*
   It was done.
   */
  DROVER_OK = 0,
  /*
   Nothing happened: the key does not exist, or has expired.
   */
  DROVER_NOT_FOUND = 1,
  /*
   Nothing happened: the key exists and must not, or has another version.
   */
  DROVER_EXISTS = 2,
  /*
   Not submitted: take outcomes, then submit it again.
   */
  DROVER_WINDOW_FULL = 3,
  /*
   An argument that no call takes.
   */
  DROVER_INVALID = -1,
  /*
   The text is no address.
   */
  DROVER_BAD_ADDRESS = -2,
  /*
   There is no session with the service: nobody listens there, or it refused the client.
   */
  DROVER_NOT_CONNECTED = -3,
  /*
   The key is empty or too long, or the value too long for this server.
   */
  DROVER_TOO_LARGE = -4,
  /*
   The service's system has no such operation.
   */
  DROVER_NOT_OFFERED = -5,
  /*
   The server has no space for the item, and must not evict others.
   */
  DROVER_FULL = -6,
  /*
   Nobody answered in time; the operation had no effect.
   */
  DROVER_UNAVAILABLE = -7,
  /*
   The server refused the operation for another reason; it had no effect.
   */
  DROVER_REFUSED = -8,
  /*
   The server or the network failed: the operation may or may not have happened.
   */
  DROVER_INDETERMINATE = -9,
  /*
   The client was closed.
   */
  DROVER_CLOSED = -10,
  /*
   Another thread than the one that connected the client.
   */
  DROVER_WRONG_THREAD = -11,
  /*
   This process is a child of the one that connected the client.
   */
  DROVER_FORKED = -12,
};
#ifndef __cplusplus
typedef int32_t drover_status;
#endif // __cplusplus

/*
 A client with sessions at a service, for the thread that connected it.
 */
typedef struct drover_client drover_client;

/*
 A value and what belongs to it. The bytes are the client's, and valid until its next call.
 */
typedef struct drover_item {
  /*
   The value's bytes; null if there is no value.
   */
  const uint8_t *value;
  /*
   Number of them.
   */
  size_t value_bytes;
  /*
   Version, for DROVER_IF_VERSION; 0 if it was not asked for, or the system has none.
   */
  uint64_t version;
  /*
   The bits that were stored with the value; 0 if they were not asked for.
   */
  uint32_t flags;
} drover_item;

/*
 How a value is stored. All zero: for ever, in any case.
 */
typedef struct drover_how {
  /*
   Seconds until the value expires; 0: never.
   */
  uint32_t ttl_s;
  /*
   The program's own bits, stored with the value.
   */
  uint32_t flags;
  /*
   When it is stored: DROVER_ALWAYS, DROVER_IF_ABSENT, DROVER_IF_PRESENT or DROVER_IF_VERSION.
   */
  uint32_t condition;
  /*
   Not 0: a key that exists keeps its expiry and flags.
   */
  uint32_t keep;
  /*
   For DROVER_IF_VERSION.
   */
  uint64_t version;
} drover_how;

/*
 How to connect. `drover_options_init` fills it in; a null pointer in its place means the same.
 */
typedef struct drover_options {
  /*
   Size of this structure as the program was compiled with it.
   */
  size_t size;
  /*
   Longest time of each of the three steps of connecting, milliseconds; 0: 5,000.
   */
  uint32_t connect_timeout_ms;
  /*
   Time after which an operation without an answer fails, milliseconds; 0: 5,000.
   */
  uint32_t call_timeout_ms;
  /*
   Number of operations in flight for each shard of the service; 0: 16.
   */
  uint32_t window;
  /*
   "user:password", where the server has a file of users; null: nobody in particular. The password is not sent.
   */
  const char *credentials;
  /*
   PEM file of the CA to trust, where a server at a TCP address speaks TLS; null: no TLS.
   */
  const char *tls_ca;
  /*
   Name that the server's certificate must be for; null: the address's host.
   */
  const char *tls_name;
  /*
   PEM file of the client's certificate, where the server wants one; null: none.
   */
  const char *tls_cert;
  /*
   PEM file of its key.
   */
  const char *tls_key;
} drover_options;

/*
 An operation.
 */
typedef struct drover_op {
  /*
   DROVER_OP_GET and so on.
   */
  uint32_t kind;
  /*
   The key's bytes.
   */
  const void *key;
  /*
   Number of them.
   */
  size_t key_bytes;
  /*
   The value's bytes, for DROVER_OP_PUT.
   */
  const void *value;
  /*
   Number of them.
   */
  size_t value_bytes;
  /*
   For DROVER_OP_PUT; condition and version also for DROVER_OP_DELETE, the time also for DROVER_OP_TOUCH.
   */
  struct drover_how how;
} drover_op;

/*
 Outcome of a submitted operation.
 */
typedef struct drover_result {
  /*
   The token that it was submitted with.
   */
  uint64_t token;
  /*
   What came of it.
   */
  drover_status status;
  /*
   What a read has found.
   */
  struct drover_item item;
} drover_result;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Looks up a key and stores its value in `item`, without version and flags.

 # Safety
 `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes, `item` to memory for the structure.
 */
drover_status drover_get(struct drover_client *client,
                         const void *key,
                         size_t key_bytes,
                         struct drover_item *item);

/*
 As `drover_get`, with version and flags. It may take longer.

 # Safety
 Those of `drover_get`.
 */
drover_status drover_get_item(struct drover_client *client,
                              const void *key,
                              size_t key_bytes,
                              struct drover_item *item);

/*
 Stores a value under a key, for `ttl_s` seconds (0: for ever).

 # Safety
 `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes, `value` to `value_bytes`.
 */
drover_status drover_set(struct drover_client *client,
                         const void *key,
                         size_t key_bytes,
                         const void *value,
                         size_t value_bytes,
                         uint32_t ttl_s);

/*
 Stores a value under a key as `how` says, if its condition holds.

 # Safety
 Those of `drover_set`; `how` points to the structure.
 */
drover_status drover_put(struct drover_client *client,
                         const void *key,
                         size_t key_bytes,
                         const void *value,
                         size_t value_bytes,
                         const struct drover_how *how);

/*
 Removes a key.

 # Safety
 `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes.
 */
drover_status drover_delete(struct drover_client *client, const void *key, size_t key_bytes);

/*
 Removes a key if its item has this version.

 # Safety
 Those of `drover_delete`.
 */
drover_status drover_delete_version(struct drover_client *client,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t version);

/*
 Has a key expire in `ttl_s` seconds (0: never).

 # Safety
 Those of `drover_delete`.
 */
drover_status drover_touch(struct drover_client *client,
                           const void *key,
                           size_t key_bytes,
                           uint32_t ttl_s);

/*
 Fills in the options that a null pointer stands for.

 # Safety
 `options` is null or points to memory for the structure.
 */
drover_status drover_options_init(struct drover_options *options);

/*
 Connects to the service at `address` (`shm:NAME`, `unix:/path.sock`, `rdma://host:port`, or `etcd://host[,host...]/NAME` for a
 service of several members, with `?tls-ca=FILE` behind it over TLS to etcd), and stores a client for this thread. Waits until there is
 a session with every shard, or until the members are known. `options` may be null.

 # Safety
 `address` is a text that ends with a zero byte, so are the texts of `options`, `client` points to memory for a pointer, and
 nobody changes any of them meanwhile.
 */
drover_status drover_connect(const char *address,
                             const struct drover_options *options,
                             struct drover_client **client);

/*
 Ends the client's sessions and frees it, whatever is in flight. A null pointer is ignored.

 # Safety
 `client` is null or came from `drover_connect` and was not closed; nobody uses it, or values that it has shown, afterwards.
 */
drover_status drover_close(struct drover_client *client);

/*
 Submits an operation, whose outcome will have `token` (any number but UINT64_MAX). Its bytes are copied. DROVER_WINDOW_FULL:
 take outcomes first.

 # Safety
 `client` came from `drover_connect` and was not closed. `op` points to the structure, its key and value to as many bytes as it says.
 */
drover_status drover_submit(struct drover_client *client,
                            const struct drover_op *op,
                            uint64_t token);

/*
 Stores at most `max` outcomes that have come in `results`, and their number in `count`. Never waits.

 # Safety
 `client` came from `drover_connect` and was not closed. `results` points to memory for `max` of the structure, `count` to memory for
 a number.
 */
drover_status drover_poll(struct drover_client *client,
                          struct drover_result *results,
                          size_t max,
                          size_t *count);

/*
 As `drover_poll`, but waits until there is an outcome; stores 0 in `count` only if nothing is in flight, or `max` is 0.

 # Safety
 Those of `drover_poll`.
 */
drover_status drover_wait(struct drover_client *client,
                          struct drover_result *results,
                          size_t max,
                          size_t *count);

/*
 Stores the number of operations whose outcome was not taken in `count`.

 # Safety
 `client` came from `drover_connect` and was not closed; `count` points to memory for a number.
 */
drover_status drover_in_flight(struct drover_client *client, size_t *count);

/*
 Text of the last call of this thread that failed, in UTF-8; empty if none has. It is valid until the next call that fails.
 */
const char *drover_error(void);

/*
 The name of a status, such as "DROVER_NOT_FOUND"; "?" if there is no such number.
 */
const char *drover_status_name(int32_t status);

/*
 The library's version.
 */
const char *drover_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DROVER_H */
