// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM, whose start takes longer than most of them: see Tools of kafka.py.
 *
 * <p>A line of its input is a class and its arguments, with tabs between; then come the exit code, how many bytes the tool has printed, and
 * these. Run from its source, with the class path of a whole Kafka.
 */
public final class Tools {
    /** In place of the end of the process. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;
    }

    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();
    private static int code;
    private static boolean isOver;
    private static int sizeAtEnd;

    private Tools() {}

    /** A tool may catch what ends it, and go on: what it does then, it would not have done. */
    private static void end(int status) {
        if (!isOver) {
            System.out.flush();
            isOver = true;
            code = status;
            sizeAtEnd = PRINTED.size();
        }
        throw new Ended();
    }

    private static void run(String name, String[] args) throws ReflectiveOperationException {
        isOver = false;
        code = 0;
        PRINTED.reset();
        PrintStream out = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(out);
        System.setErr(out);
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException error) {
            if (!isOver) {
                error.getCause().printStackTrace();
                code = 1;
            }
        }
        out.flush();
    }

    public static void main(String[] unused) throws Exception {
        PrintStream real = System.out;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            int size = isOver ? sizeAtEnd : PRINTED.size();
            real.println(code + " " + size);
            real.write(PRINTED.toByteArray(), 0, size);
            real.flush();
        }
    }
}
