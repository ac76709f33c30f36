// CheckVectors: reads each line of vectors.c with Kafka's own classes, writes it again, and compares the bytes.
//
// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.TreeMap;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

public class CheckVectors {
    static final int OUR_OWN_FROM = 20000; // api keys and record types that Kafka does not have

    static Message empty(String kind, short key, String name) throws Exception {
        switch (kind) {
            case "request": return ApiMessageType.fromApiKey(key).newRequest();
            case "response": return ApiMessageType.fromApiKey(key).newResponse();
            case "metadata": return MetadataRecordType.fromId(key).newMetadataRecord();
            default: break;
        }
        String type = "org.apache.kafka.common.message." + name + (kind.equals("header") ? "Data" : "");
        return (Message) Class.forName(type).getDeclaredConstructor().newInstance();
    }

    // A tag that we know and Kafka does not would survive reading and writing: so look for it. Planted ones are above.
    static final int PLANTED_TAGS_FROM = 10000;

    static String unknownTag(Object value) throws IllegalAccessException {
        if (value instanceof Collection) {
            for (Object item : (Collection<?>) value) {
                String what = unknownTag(item);
                if (what != null) return what;
            }
        }
        if (!(value instanceof Message)) return null;
        for (RawTaggedField field : ((Message) value).unknownTaggedFields()) {
            if (field.tag() < PLANTED_TAGS_FROM) return "Kafka does not know tag " + field.tag();
        }
        for (Field field : value.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) continue;
            field.setAccessible(true);
            String what = unknownTag(field.get(value));
            if (what != null) return what;
        }
        return null;
    }

    static String difference(Message message, byte[] bytes, short version) {
        try {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(in), version);
            if (in.hasRemaining()) return in.remaining() + " bytes are left";
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            return Arrays.equals(out.array(), bytes) ? unknownTag(message) : "other bytes";
        } catch (RuntimeException | IllegalAccessException e) {
            return e.toString();
        }
    }

    static byte[] unhex(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return bytes;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        TreeMap<String, Integer> differences = new TreeMap<>();
        int vectors = 0;
        int different = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (Short.parseShort(words[1]) >= OUR_OWN_FROM) continue;
            short version = Short.parseShort(words[2]);
            byte[] bytes = unhex(words.length > 4 ? words[4] : "");
            String what = difference(empty(words[0], Short.parseShort(words[1]), words[3]), bytes, version);
            vectors += 1;
            if (what == null) continue;
            different += 1;
            differences.merge(words[3] + " version " + version + ": " + what, 1, Integer::sum);
        }
        differences.forEach((what, count) -> System.out.println(what + " (" + count + ")"));
        System.out.println("vectors=" + vectors + " different=" + different);
        System.exit(different == 0 && vectors > 0 ? 0 : 1);
    }
}
