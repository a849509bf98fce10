package sample;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The command line: `--name value` pairs; `--set` may stand several times. Anything else is an error that is said. */
final class Options {
    private static final Set<String> NAMES = Set.of(
            "bootstrap", "application-id", "mode", "inputs", "output", "state-dir", "through", "protocol", "eos",
            "factor", "window-ms", "store", "skip", "topology-file", "threads", "set");
    private static final Set<String> NEEDED = Set.of(
            "bootstrap", "application-id", "mode", "inputs", "output", "state-dir");

    private final Map<String, String> values = new HashMap<>();
    final Map<String, String> settings = new HashMap<>();

    Options(String[] words) {
        for (int at = 0; at < words.length; at += 2) {
            String name = words[at].startsWith("--") ? words[at].substring(2) : "";
            if (!NAMES.contains(name) || at + 1 == words.length) {
                throw new IllegalArgumentException("what is " + words[at] + "? Known, each with a value: " + NAMES);
            }
            if (name.equals("set")) {
                String[] pair = words[at + 1].split("=", 2);
                if (pair.length != 2) {
                    throw new IllegalArgumentException("--set takes name=value, not " + words[at + 1]);
                }
                settings.put(pair[0], pair[1]);
            } else {
                values.put(name, words[at + 1]);
            }
        }
        List<String> missing = new ArrayList<>(NEEDED);
        missing.removeAll(values.keySet());
        if (!missing.isEmpty()) {
            throw new IllegalArgumentException("missing: " + missing);
        }
    }

    String text(String name) {
        return values.get(name);
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    long number(String name, long otherwise) {
        return values.containsKey(name) ? Long.parseLong(values.get(name)) : otherwise;
    }

    boolean is(String name) {
        return Boolean.parseBoolean(values.getOrDefault(name, "false"));
    }

    /** The input at this place; the mode says what each is. */
    String input(int place) {
        String[] inputs = values.get("inputs").split(",");
        if (place >= inputs.length) {
            throw new IllegalArgumentException("mode " + text("mode") + " needs " + (place + 1) + " inputs");
        }
        return inputs[place];
    }
}
