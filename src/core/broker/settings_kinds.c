/* settings_kinds.c: what DescribeConfigs says of a property besides its value: its type in Kafka's numbers, whether it is a secret.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/settings.h"

#include "metadata/metadata.h"

enum { WIRE_CLASS = 8, WIRE_PASSWORD = 9 };

/* Kafka's names of classes; here each is a text like others. */
static const char *const classes[] = {"alter.config.policy.class.name",
                                      "client.quota.callback.class",
                                      "create.topic.policy.class.name",
                                      "principal.builder.class",
                                      "sasl.client.callback.handler.class",
                                      "sasl.login.callback.handler.class",
                                      "sasl.login.class",
                                      "sasl.oauthbearer.jwt.retriever.class",
                                      "sasl.oauthbearer.jwt.validator.class",
                                      "sasl.server.callback.handler.class",
                                      "ssl.engine.factory.class"};
/* Kafka takes them from a file and tells nobody: internal ones, and its authorizer's. */
static const char *const untold[] = {"allow.everyone.if.no.acl.found",
                                     "controller.performance.always.log.threshold.ms",
                                     "controller.performance.sample.period.ms",
                                     "group.consumer.regex.refresh.interval.ms",
                                     "group.share.initialize.retry.interval.ms",
                                     "group.share.persister.class.name",
                                     "internal.metadata.delete.delay.millis",
                                     "internal.metadata.log.segment.bytes",
                                     "internal.metadata.max.batch.size.in.bytes",
                                     "log.initial.task.delay.ms",
                                     "max.decompressed.message.bytes",
                                     "producer.id.expiration.check.interval.ms",
                                     "remote.log.index.file.cache.ttl.ms",
                                     "remote.log.manager.task.retry.backoff.max.ms",
                                     "remote.log.manager.task.retry.backoff.ms",
                                     "remote.log.manager.task.retry.jitter",
                                     "server.max.startup.time.ms",
                                     "share.coordinator.cold.partition.snapshot.interval.ms",
                                     "share.coordinator.state.topic.prune.interval.ms",
                                     "super.users",
                                     "unclean.leader.election.interval.ms",
                                     "unstable.api.versions.enable",
                                     "unstable.feature.versions.enable"};
static const char *const secrets[] = {"delegation.token.secret.key",
                                      "sasl.jaas.config",
                                      "sasl.oauthbearer.assertion.private.key.passphrase",
                                      "sasl.oauthbearer.client.credentials.client.secret",
                                      "ssl.key.password",
                                      "ssl.keystore.certificate.chain",
                                      "ssl.keystore.key",
                                      "ssl.keystore.password",
                                      "ssl.truststore.certificates",
                                      "ssl.truststore.password"};

static bool is_in(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (base_slice_equal(base_slice_text(names[i]), base_slice_text(name))) { return true; }
    }
    return false;
}

bool settings_is_secret(const struct settings_definition *definition)
{
    return is_in(secrets, BASE_ARRAY_COUNT(secrets), definition->name);
}

bool settings_is_untold(const struct settings_definition *definition)
{
    return is_in(untold, BASE_ARRAY_COUNT(untold), definition->name);
}

int8_t settings_wire_type(const struct settings_definition *definition)
{
    if (settings_is_secret(definition)) { return WIRE_PASSWORD; }
    if (is_in(classes, BASE_ARRAY_COUNT(classes), definition->name)) { return WIRE_CLASS; }
    return (int8_t)definition->type;
}

const char *settings_documentation(const struct settings_definition *definition)
{
    switch (definition->use) {
    case SETTINGS_MEANT:
        return "What Kafka's property of this name sets; one whose name begins with weir. is Weir's own.";
    case SETTINGS_TOPIC_DEFAULT: {
        for (unsigned id = 0; id < METADATA_ID_COUNT; id++) {
            const struct metadata_definition *topic = metadata_definition((enum metadata_id)id);
            for (uint32_t i = 0; i < METADATA_SYNONYMS_MAX && topic->synonyms[i].name != NULL; i++) {
                bool is_it =
                    base_slice_equal(base_slice_text(topic->synonyms[i].name), base_slice_text(definition->name));
                if (is_it) { return topic->documentation; }
            }
        }
        return "";
    }
    case SETTINGS_PASSED:
        return "What Kafka's property of this name sets; one whose name begins with weir. is Weir's own.";
    case SETTINGS_IGNORED: return "Kafka's; it is accepted, and means nothing here.";
    case SETTINGS_REFUSED: return "Kafka's; what it promises is not there, so only its default is accepted.";
    }
    UNREACHABLE();
}
