// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client as a helper of the tests: the words are in client_words.py. */
public final class Client {
    private final String bootstrap;
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private Admin admin;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        new Client(args[0]).serve();
    }

    private Admin admin() {
        if (admin == null) {
            Properties config = new Properties();
            config.put("bootstrap.servers", bootstrap);
            admin = Admin.create(config);
        }
        return admin;
    }

    private static String pack(byte[] data) {
        return data == null ? "-" : "=" + Base64.getEncoder().encodeToString(data);
    }

    private static byte[] unpack(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text.substring(1));
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private void serve() throws Exception {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> rows = new ArrayList<>();
            try {
                answer(line.split("\t", -1), rows);
                for (String row : rows) {
                    out.println(row);
                }
                out.println("ok");
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
                String name = cause instanceof NoSuchMethodException ? "NO_SUCH_CALL" : cause instanceof ApiException ? Errors.forException(cause).name() : cause.getClass().getSimpleName();
                out.println("error\t" + name + "\t" + String.valueOf(cause.getMessage()).replaceAll("[\n\t]", " "));
            }
            out.flush();
        }
        producers.values().forEach(KafkaProducer::close);
        if (admin != null) {
            admin.close();
        }
    }

    private void answer(String[] words, List<String> rows) throws Exception {
        switch (words[0]) {
            case "create": {
                NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), (short) 1).configs(pairs(words[3]));
                admin().createTopics(List.of(topic)).all().get();
                return;
            }
            case "delete":
                admin().deleteTopics(List.of(words[1])).all().get();
                return;
            case "topics":
                rows.addAll(new TreeSet<>(admin().listTopics().names().get()));
                return;
            case "configs":
                configs(new ConfigResource(ConfigResource.Type.TOPIC, words[1]), rows);
                return;
            case "broker_configs": {
                String node = admin().describeCluster().nodes().get().iterator().next().idString();
                configs(new ConfigResource(ConfigResource.Type.BROKER, node), rows);
                return;
            }
            case "produce":
                produce(words[1], words[2], Integer.parseInt(words[3]), rows);
                return;
            case "consume":
                consume(words[1], words[2], words.length > 3 ? words[3] : "beginning", rows);
                return;
            case "alter_configs":
                alter(words[1], pairs(words[2]));
                return;
            case "add_partitions":
                admin().createPartitions(Map.of(words[1], NewPartitions.increaseTo(Integer.parseInt(words[2])))).all().get();
                return;
            case "list_offsets":
                listOffsets(words[1], words[2], rows);
                return;
            case "delete_records": {
                Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                offsets(words[1], words[2]).forEach((where, offset) -> before.put(where, RecordsToDelete.beforeOffset(offset)));
                admin().deleteRecords(before).all().get();
                return;
            }
            case "groups":
                admin().listGroups().all().get().forEach(group -> rows.add(group.groupId()));
                Collections.sort(rows);
                return;
            case "group": {
                ConsumerGroupDescription group = admin().describeConsumerGroups(List.of(words[1])).all().get().get(words[1]);
                rows.add(group.groupState() + "\t" + group.members().size());
                group.members().forEach(m -> rows.add(m.consumerId() + "\t" + m.groupInstanceId().orElse("") + "\t" + m.clientId() + "\t" + m.host()));
                return;
            }
            case "committed":
                new TreeMap<>(admin().listConsumerGroupOffsets(words[1]).partitionsToOffsetAndMetadata().get().entrySet().stream()
                        .filter(entry -> entry.getKey().topic().equals(words[2]))
                        .collect(Collectors.toMap(entry -> entry.getKey().partition(), entry -> entry.getValue().offset())))
                        .forEach((partition, offset) -> rows.add(partition + "\t" + offset));
                return;
            case "delete_group":
                admin().deleteConsumerGroups(List.of(words[1])).all().get();
                return;
            default:
                throw new NoSuchMethodException(words[0]);
        }
    }

    private static Map<String, String> pairs(String text) {
        Map<String, String> pairs = new HashMap<>();
        for (String item : text.split(",")) {
            if (!item.isEmpty()) {
                pairs.put(item.substring(0, item.indexOf('=')), item.substring(item.indexOf('=') + 1));
            }
        }
        return pairs;
    }

    private static Map<TopicPartition, Long> offsets(String topic, String text) {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        for (String item : text.split(",")) {
            String[] words = item.split(":");
            offsets.put(new TopicPartition(topic, Integer.parseInt(words[0])), Long.parseLong(words[1]));
        }
        return offsets;
    }

    private void alter(String topic, Map<String, String> configs) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<AlterConfigOp> operations = new ArrayList<>();
        configs.forEach((name, value) -> operations.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        admin().incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    }

    private void listOffsets(String topic, String when, List<String> rows) throws Exception {
        OffsetSpec spec = when.equals("earliest") ? OffsetSpec.earliest() : when.equals("latest") ? OffsetSpec.latest()
                : OffsetSpec.forTimestamp(Long.parseLong(when));
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()
                .forEach(partition -> asked.put(new TopicPartition(topic, partition.partition()), spec));
        Map<Integer, Long> sorted = new TreeMap<>();
        admin().listOffsets(asked).all().get().forEach((where, found) -> sorted.put(where.partition(), found.offset()));
        sorted.forEach((partition, offset) -> rows.add(partition + "\t" + offset));
    }

    private void configs(ConfigResource resource, List<String> rows) throws Exception {
        Map<String, String> sorted = new TreeMap<>();
        for (ConfigEntry entry : admin().describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            sorted.put(entry.name(), entry.value() == null ? "" : entry.value());
        }
        sorted.forEach((name, value) -> rows.add(name + "\t" + value.replaceAll("[\n\t]", " ")));
    }

    private void produce(String topic, String codec, int count, List<String> rows) throws Exception {
        List<String[]> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(in.readLine().split("\t", -1));
        }
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(codec, this::producer);
        for (String[] f : records) {
            RecordHeaders headers = new RecordHeaders();
            for (String item : f[4].split(",")) {
                if (!item.isEmpty()) {
                    int colon = item.indexOf(':');
                    headers.add(text(item.substring(0, colon)), unpack(item.substring(colon + 1)));
                }
            }
            futures.add(producer.send(new ProducerRecord<>(topic, Integer.valueOf(f[0]), Long.valueOf(f[1]), unpack(f[2]), unpack(f[3]), headers)));
        }
        for (Future<RecordMetadata> future : futures) {
            RecordMetadata done = future.get();
            rows.add(done.partition() + "\t" + done.offset());
        }
    }

    /** Kept, so that what it knows of topics and of its sequences outlives them and the broker. */
    private KafkaProducer<byte[], byte[]> producer(String codec) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("compression.type", codec);
        config.put("linger.ms", "20");
        config.put("metadata.max.age.ms", "1000");
        config.put("delivery.timeout.ms", "50000");
        config.put("max.block.ms", "50000");
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void consume(String topic, String what, String from, List<String> rows) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("enable.auto.commit", "false");
        Map<TopicPartition, Long> left = offsets(topic, what);
        left.values().removeIf(end -> end == 0);
        long at = from.equals("beginning") ? 0 : Long.parseLong(from.substring(from.indexOf(':') + 1));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(left.keySet());
            if (from.startsWith("offset:")) {
                left.keySet().forEach(where -> consumer.seek(where, at));
            } else if (from.startsWith("time:")) {
                Map<TopicPartition, Long> times = left.keySet().stream().collect(Collectors.toMap(where -> where, where -> at));
                consumer.offsetsForTimes(times).forEach((where, found) -> consumer.seek(where, found.offset()));
            } else {
                consumer.seekToBeginning(left.keySet());
            }
            long deadline = System.nanoTime() + Duration.ofSeconds(50).toNanos();
            while (!left.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("nothing more came, left: " + left);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    TopicPartition where = new TopicPartition(topic, record.partition());
                    Long end = left.get(where);
                    if (end == null || record.offset() >= end) {
                        continue;
                    }
                    StringBuilder headers = new StringBuilder();
                    for (Header header : record.headers()) {
                        headers.append(headers.length() == 0 ? "" : ",")
                                .append(Base64.getEncoder().encodeToString(header.key().getBytes(StandardCharsets.UTF_8)))
                                .append(':').append(pack(header.value()));
                    }
                    rows.add(record.partition() + "\t" + record.offset() + "\t" + record.timestamp() + "\t" + pack(record.key())
                            + "\t" + pack(record.value()) + "\t" + headers);
                    if (record.offset() + 1 >= end) {
                        left.remove(where);
                    }
                }
            }
        }
    }
}
