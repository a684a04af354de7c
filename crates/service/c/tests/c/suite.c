/* What a C program sees of libdrover. Run as: suite ADDRESS; prints the name of each case, ends with 0 if all hold. */
#include "drover.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *address;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, drover_error());   \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
#define IS(call, wanted)                                                                          \
    do {                                                                                          \
        drover_status got = (call);                                                               \
        if (got != (wanted)) {                                                                    \
            fprintf(stderr, "%s:%d: %s is %s, not %s: %s\n", __FILE__, __LINE__, #call,           \
                    drover_status_name(got), #wanted, drover_error());                            \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static drover_client *connected(void) {
    drover_client *client = NULL;
    IS(drover_connect(address, NULL, &client), DROVER_OK);
    CHECK(client != NULL);
    return client;
}

static int holds(const drover_item *item, const void *value, size_t bytes) {
    return item->value_bytes == bytes && memcmp(item->value, value, bytes) == 0;
}

static void values_come_back(void) {
    drover_client *client = connected();
    drover_item item;
    IS(drover_get(client, "none", 4, &item), DROVER_NOT_FOUND);
    CHECK(item.value == NULL && item.value_bytes == 0);
    IS(drover_set(client, "k", 1, "value", 5, 0), DROVER_OK);
    IS(drover_get(client, "k", 1, &item), DROVER_OK);
    CHECK(holds(&item, "value", 5));
    /* No bytes are a value. */
    IS(drover_set(client, "k", 1, NULL, 0, 0), DROVER_OK);
    IS(drover_get(client, "k", 1, &item), DROVER_OK);
    CHECK(item.value != NULL && item.value_bytes == 0);
    IS(drover_delete(client, "k", 1), DROVER_OK);
    IS(drover_delete(client, "k", 1), DROVER_NOT_FOUND);
    IS(drover_close(client), DROVER_OK);
}

static void keys_and_values_may_be_any_bytes(void) {
    drover_client *client = connected();
    drover_item item;
    unsigned char key[250], value[256];
    for (size_t i = 0; i < sizeof key; i++) key[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof value; i++) value[i] = (unsigned char)i;
    IS(drover_set(client, key, sizeof key, value, sizeof value, 60), DROVER_OK);
    IS(drover_get(client, key, sizeof key, &item), DROVER_OK);
    CHECK(holds(&item, value, sizeof value));
    IS(drover_get(client, key, sizeof key - 1, &item), DROVER_NOT_FOUND);
    drover_close(client);
}

static void long_values(void) {
    drover_client *client = connected();
    drover_item item;
    size_t bytes = 40000;
    char *value = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) value[i] = (char)(i % 251);
    IS(drover_set(client, "long", 4, value, bytes, 0), DROVER_OK);
    IS(drover_get(client, "long", 4, &item), DROVER_OK);
    CHECK(holds(&item, value, bytes));
    value = realloc(value, 8 << 20);
    IS(drover_set(client, "longer", 6, value, 8 << 20, 0), DROVER_TOO_LARGE);
    CHECK(strlen(drover_error()) > 0);
    free(value);
    drover_close(client);
}

static void versions_flags_and_conditions(void) {
    drover_client *client = connected();
    drover_item item;
    drover_how how = {.flags = 7, .condition = DROVER_IF_ABSENT};
    drover_delete(client, "c", 1);
    IS(drover_put(client, "c", 1, "1", 1, &how), DROVER_OK);
    IS(drover_put(client, "c", 1, "2", 1, &how), DROVER_EXISTS);
    IS(drover_get_item(client, "c", 1, &item), DROVER_OK);
    CHECK(holds(&item, "1", 1) && item.flags == 7 && item.version != 0);
    uint64_t version = item.version;
    how = (drover_how){.condition = DROVER_IF_VERSION, .version = version};
    IS(drover_put(client, "c", 1, "3", 1, &how), DROVER_OK);
    IS(drover_put(client, "c", 1, "4", 1, &how), DROVER_EXISTS);
    IS(drover_delete_version(client, "c", 1, version), DROVER_EXISTS);
    IS(drover_get_item(client, "c", 1, &item), DROVER_OK);
    CHECK(holds(&item, "3", 1) && item.flags == 0 && item.version != version);
    IS(drover_touch(client, "c", 1, 100), DROVER_OK);
    IS(drover_touch(client, "none", 4, 100), DROVER_NOT_FOUND);
    /* With some systems, a touch makes another version. */
    IS(drover_get_item(client, "c", 1, &item), DROVER_OK);
    IS(drover_delete_version(client, "c", 1, item.version), DROVER_OK);
    how = (drover_how){.condition = DROVER_IF_PRESENT};
    IS(drover_put(client, "c", 1, "5", 1, &how), DROVER_NOT_FOUND);
    drover_close(client);
}

static void many_operations_are_under_way(void) {
    enum { KEYS = 1000 };
    drover_client *client = connected();
    char keys[KEYS][8];
    drover_result results[8];
    size_t submitted = 0, stored = 0, found = 0, count, full = 0;
    for (int i = 0; i < KEYS; i++) snprintf(keys[i], sizeof keys[i], "m%d", i);
    while (stored < KEYS) {
        while (submitted < KEYS) {
            drover_op op = {.kind = DROVER_OP_PUT, .key = keys[submitted], .key_bytes = strlen(keys[submitted]),
                            .value = keys[submitted], .value_bytes = strlen(keys[submitted])};
            drover_status status = drover_submit(client, &op, submitted);
            if (status == DROVER_WINDOW_FULL) {
                full++;
                break;
            }
            IS(status, DROVER_OK);
            submitted++;
        }
        IS(drover_wait(client, results, 8, &count), DROVER_OK);
        CHECK(count >= 1 && count <= 8);
        for (size_t i = 0; i < count; i++) IS(results[i].status, DROVER_OK);
        stored += count;
    }
    CHECK(full > 0);
    IS(drover_wait(client, results, 8, &count), DROVER_OK);
    CHECK(count == 0);
    for (int i = 0; i < 8; i++) {
        drover_op op = {.kind = i == 7 ? DROVER_OP_DELETE : DROVER_OP_GET_ITEM, .key = keys[i], .key_bytes = strlen(keys[i])};
        IS(drover_submit(client, &op, 100 + (uint64_t)i), DROVER_OK);
    }
    IS(drover_in_flight(client, &count), DROVER_OK);
    CHECK(count == 8);
    /* A call that waits leaves their outcomes alone, and they stay as they were shown until the next call. */
    drover_item item;
    IS(drover_get(client, "m9", 2, &item), DROVER_OK);
    CHECK(holds(&item, "m9", 2));
    int seen[8] = {0};
    while (found < 8) {
        IS(drover_poll(client, results, 3, &count), DROVER_OK);
        for (size_t i = 0; i < count; i++) {
            size_t index = (size_t)(results[i].token - 100);
            CHECK(index < 8 && !seen[index]);
            seen[index] = 1;
            IS(results[i].status, DROVER_OK);
            CHECK(index == 7 || holds(&results[i].item, keys[index], strlen(keys[index])));
        }
        found += count;
    }
    drover_close(client);
}

static void calls_beside_outcomes_that_nobody_takes(void) {
    drover_client *client = connected();
    drover_item item;
    drover_op op = {.kind = DROVER_OP_GET, .key = "kept", .key_bytes = 4};
    IS(drover_set(client, "kept", 4, "first", 5, 0), DROVER_OK);
    for (uint64_t token = 0; token < 5; token++) IS(drover_submit(client, &op, token), DROVER_OK);
    for (int i = 0; i < 1000; i++) {
        IS(drover_set(client, "kept", 4, &i, sizeof i, 0), DROVER_OK);
        IS(drover_get(client, "kept", 4, &item), DROVER_OK);
        CHECK(holds(&item, &i, sizeof i));
    }
    drover_result results[2];
    size_t count;
    for (uint64_t token = 0; token < 5;) {
        IS(drover_poll(client, results, 2, &count), DROVER_OK);
        for (size_t i = 0; i < count; i++) CHECK(results[i].token == token++ && holds(&results[i].item, "first", 5));
    }
    drover_close(client);
}

static void bad_arguments(void) {
    drover_client *client = connected(), *other;
    drover_item item;
    drover_result result;
    size_t count;
    IS(drover_connect(NULL, NULL, &other), DROVER_INVALID);
    IS(drover_connect(address, NULL, NULL), DROVER_INVALID);
    IS(drover_get(NULL, "k", 1, &item), DROVER_INVALID);
    IS(drover_get(client, NULL, 1, &item), DROVER_INVALID);
    IS(drover_get(client, "k", 1, NULL), DROVER_INVALID);
    IS(drover_get(client, "k", SIZE_MAX, &item), DROVER_INVALID);
    IS(drover_set(client, "k", 1, NULL, 1, 0), DROVER_INVALID);
    IS(drover_put(client, "k", 1, "v", 1, NULL), DROVER_INVALID);
    IS(drover_get(client, NULL, 0, &item), DROVER_TOO_LARGE);
    char key[251] = {0};
    IS(drover_get(client, key, sizeof key, &item), DROVER_TOO_LARGE);
    drover_how how = {.condition = 4};
    IS(drover_put(client, "k", 1, "v", 1, &how), DROVER_INVALID);
    CHECK(strstr(drover_error(), "condition 4") != NULL);
    drover_op op = {.kind = 9, .key = "k", .key_bytes = 1};
    IS(drover_submit(client, &op, 0), DROVER_INVALID);
    IS(drover_submit(client, NULL, 0), DROVER_INVALID);
    op.kind = DROVER_OP_GET;
    IS(drover_submit(client, &op, UINT64_MAX), DROVER_INVALID);
    IS(drover_poll(client, NULL, 1, &count), DROVER_INVALID);
    IS(drover_poll(client, &result, 1, NULL), DROVER_INVALID);
    IS(drover_poll(client, NULL, 0, &count), DROVER_OK);
    IS(drover_in_flight(client, NULL), DROVER_INVALID);
    IS(drover_options_init(NULL), DROVER_INVALID);
    IS(drover_close(NULL), DROVER_OK);
    CHECK(strcmp(drover_status_name(DROVER_FORKED), "DROVER_FORKED") == 0 && strcmp(drover_status_name(99), "?") == 0);
    drover_close(client);
}

static void what_does_not_connect(void) {
    drover_client *client = NULL;
    drover_options options;
    IS(drover_connect("nonsense", NULL, &client), DROVER_BAD_ADDRESS);
    IS(drover_connect("unix:/nowhere.sock", NULL, &client), DROVER_NOT_CONNECTED);
    CHECK(strstr(drover_error(), "/nowhere.sock") != NULL);
    memset(&options, 0, sizeof options);
    IS(drover_connect(address, &options, &client), DROVER_INVALID);
    IS(drover_options_init(&options), DROVER_OK);
    options.credentials = "no colon";
    IS(drover_connect(address, &options, &client), DROVER_INVALID);
    options.credentials = NULL;
    options.tls_name = "somebody";
    IS(drover_connect(address, &options, &client), DROVER_INVALID);
    options.tls_ca = "/nowhere.pem";
    IS(drover_connect(address, &options, &client), DROVER_INVALID);
    CHECK(strstr(drover_error(), "/nowhere.pem") != NULL);
    CHECK(client == NULL);
    IS(drover_options_init(&options), DROVER_OK);
    options.window = 4;
    options.call_timeout_ms = 20000;
    IS(drover_connect(address, &options, &client), DROVER_OK);
    drover_close(client);
}

static void *use_of_another(void *client) {
    drover_item item;
    size_t count;
    IS(drover_get(client, "k", 1, &item), DROVER_WRONG_THREAD);
    IS(drover_in_flight(client, &count), DROVER_WRONG_THREAD);
    IS(drover_close(client), DROVER_WRONG_THREAD);
    return NULL;
}

static void *use_of_its_own(void *number) {
    drover_client *client = connected();
    drover_item item;
    for (int i = 0; i < 200; i++) {
        int pair[2] = {*(int *)number, i};
        IS(drover_set(client, pair, sizeof pair[0], pair, sizeof pair, 0), DROVER_OK);
        IS(drover_get(client, pair, sizeof pair[0], &item), DROVER_OK);
        CHECK(holds(&item, pair, sizeof pair));
    }
    drover_close(client);
    return NULL;
}

static void threads(void) {
    drover_client *client = connected();
    pthread_t thread, all[4];
    int numbers[4];
    CHECK(pthread_create(&thread, NULL, use_of_another, client) == 0 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&all[i], NULL, use_of_its_own, &numbers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_join(all[i], NULL) == 0);
    IS(drover_set(client, "k", 1, "v", 1, 0), DROVER_OK);
    drover_close(client);
}

static void children(void) {
    drover_client *client = connected();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        drover_item item;
        IS(drover_get(client, "k", 1, &item), DROVER_FORKED);
        IS(drover_close(client), DROVER_FORKED);
        drover_client *own = connected();
        IS(drover_set(own, "child", 5, "v", 1, 0), DROVER_OK);
        drover_close(own);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    drover_item item;
    IS(drover_get(client, "child", 5, &item), DROVER_OK);
    drover_close(client);
}

static void closed_clients(void) {
    drover_client *client = connected();
    drover_item item;
    drover_op op = {.kind = DROVER_OP_GET, .key = "k", .key_bytes = 1};
    IS(drover_submit(client, &op, 1), DROVER_OK);
    IS(drover_close(client), DROVER_OK);
    /* Builds without debug assertions cannot tell. */
    if (getenv("DROVER_CHECKS_CLOSED")) {
        IS(drover_get(client, "k", 1, &item), DROVER_CLOSED);
        IS(drover_close(client), DROVER_CLOSED);
    }
}

#define CASE(name) {#name, name}
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(values_come_back), CASE(keys_and_values_may_be_any_bytes), CASE(long_values),
    CASE(versions_flags_and_conditions), CASE(many_operations_are_under_way),
    CASE(calls_beside_outcomes_that_nobody_takes), CASE(bad_arguments), CASE(what_does_not_connect),
    CASE(threads), CASE(children), CASE(closed_clients),
};

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: suite ADDRESS\n");
        return 2;
    }
    address = arguments[1];
    CHECK(strlen(drover_version()) > 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cases[i].run();
        printf("%s: holds\n", cases[i].name);
    }
    return 0;
}
