// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
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
                String name = cause instanceof ApiException ? Errors.forException(cause).name() : cause.getClass().getSimpleName();
                out.println("error\t" + name + "\t" + String.valueOf(cause.getMessage()).replaceAll("[\n\t]", " "));
            }
            out.flush();
        }
        if (admin != null) {
            admin.close();
        }
    }

    private void answer(String[] words, List<String> rows) throws Exception {
        switch (words[0]) {
            case "create": {
                Map<String, String> configs = new HashMap<>();
                for (String item : words[3].split(",")) {
                    if (!item.isEmpty()) {
                        configs.put(item.substring(0, item.indexOf('=')), item.substring(item.indexOf('=') + 1));
                    }
                }
                NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), (short) 1).configs(configs);
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
                consume(words[1], words[2], rows);
                return;
            default:
                throw new IllegalArgumentException(words[0]);
        }
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
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("compression.type", codec);
        config.put("linger.ms", "20");
        config.put("delivery.timeout.ms", "40000");
        config.put("max.block.ms", "30000");
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String[] f : records) {
                RecordHeaders headers = new RecordHeaders();
                for (String item : f[4].split(",")) {
                    if (!item.isEmpty()) {
                        int colon = item.indexOf(':');
                        headers.add(text(item.substring(0, colon)), unpack(item.substring(colon + 1)));
                    }
                }
                futures.add(producer.send(new ProducerRecord<>(topic, Integer.valueOf(f[0]), Long.valueOf(f[1]), unpack(f[2]),
                        unpack(f[3]), headers)));
            }
            for (Future<RecordMetadata> future : futures) {
                RecordMetadata done = future.get();
                rows.add(done.partition() + "\t" + done.offset());
            }
        }
    }

    private void consume(String topic, String what, List<String> rows) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("enable.auto.commit", "false");
        Map<TopicPartition, Long> left = new HashMap<>();
        for (String item : what.split(",")) {
            String[] words = item.split(":");
            if (Long.parseLong(words[1]) > 0) {
                left.put(new TopicPartition(topic, Integer.parseInt(words[0])), Long.parseLong(words[1]));
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(left.keySet());
            consumer.seekToBeginning(left.keySet());
            long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
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
