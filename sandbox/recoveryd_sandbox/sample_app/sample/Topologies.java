package sample;

import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * What the application computes, by mode. All keys and values are text, numbers too, so that any client can read them.
 * Without `--store` Kafka Streams names stores and internal topics itself; with it, people did.
 */
final class Topologies {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();

    private final Options options;
    private final StreamsBuilder builder;
    private final String output;

    Topologies(Options options, StreamsBuilder builder) {
        this.options = options;
        this.builder = builder;
        this.output = options.text("output");
    }

    void build() {
        switch (options.text("mode")) {
            case "wordcount" -> wordCount();
            case "count" -> write(stream(0).groupByKey().count(store()).toStream());
            case "through" -> through();
            case "totals" -> totals(named());
            case "lookup" -> totals(lookedUp());
            case "windows" -> windows();
            case "fkey" -> foreignKey();
            default -> throw new IllegalArgumentException(
                    "mode is wordcount, count, through, totals, lookup, windows or fkey, not " + options.text("mode"));
        }
    }

    /** Inputs: lines of text. The words become keys, so they pass a repartition topic. */
    private void wordCount() {
        write(stream(0)
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
                .filter((key, word) -> !word.isEmpty())
                .groupBy((key, word) -> word, Grouped.with(TEXT, TEXT))
                .count(store())
                .toStream());
    }

    /** As count, but the records pass a topic of the user in between, which a restart must not process twice. */
    private void through() {
        String between = options.text("through");
        stream(0).mapValues(value -> value.strip()).to(between, Produced.with(TEXT, TEXT));
        write(builder.stream(between, Consumed.with(TEXT, TEXT)).groupByKey().count(store()).toStream());
    }

    /**
     * Inputs: orders (customer id, amount) and a table of customers (id, name). The sum per customer is that of amounts
     * times `--factor`: with another factor than 1 the application has a bug.
     */
    private void totals(KStream<String, String> orders) {
        long factor = options.number("factor", 1);
        orders.groupByKey(Grouped.with(TEXT, TEXT))
                .aggregate(
                        () -> ":0",
                        (id, order, total) -> {
                            String[] named = order.split(":", 2);
                            long before = Long.parseLong(total.split(":", 2)[1]);
                            return named[0] + ":" + (before + factor * Long.parseLong(named[1]));
                        },
                        text())
                .toStream()
                .to(output, Produced.with(TEXT, TEXT));
    }

    private KStream<String, String> named() {
        KTable<String, String> customers = builder.table(options.input(1), Consumed.with(TEXT, TEXT));
        return stream(0).join(customers, (amount, name) -> name + ":" + amount, Joined.with(TEXT, TEXT, TEXT));
    }

    /** By a global table, which each instance reads whole, and on which nobody commits. */
    private KStream<String, String> lookedUp() {
        GlobalKTable<String, String> customers = builder.globalTable(options.input(1), Consumed.with(TEXT, TEXT));
        return stream(0).join(customers, (id, amount) -> id, (amount, name) -> name + ":" + amount);
    }

    /** Counts per key and tumbling window of event time; the output's key is `key@start of the window in ms`. */
    private void windows() {
        Duration size = Duration.ofMillis(options.number("window-ms", 60_000));
        Materialized<String, Long, WindowStore<Bytes, byte[]>> counts = options.text("store") == null
                ? Materialized.with(TEXT, LONG)
                : Materialized.<String, Long, WindowStore<Bytes, byte[]>>as(options.text("store"))
                        .withKeySerde(TEXT)
                        .withValueSerde(LONG);
        write(stream(0)
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(size, Duration.ofDays(1)))
                .count(counts)
                .toStream()
                .selectKey((window, count) -> window.key() + "@" + window.window().start()));
    }

    /** Inputs: a table of orders (order id, `customer id:amount`) and one of customers (id, name). */
    private void foreignKey() {
        KTable<String, String> orders = builder.table(options.input(0), Consumed.with(TEXT, TEXT));
        KTable<String, String> customers = builder.table(options.input(1), Consumed.with(TEXT, TEXT));
        orders.join(
                        customers,
                        order -> order.split(":", 2)[0],
                        (order, name) -> name + ":" + order.split(":", 2)[1],
                        text())
                .toStream()
                .to(output, Produced.with(TEXT, TEXT));
    }

    private KStream<String, String> stream(int place) {
        KStream<String, String> all = builder.stream(options.input(place), Consumed.with(TEXT, TEXT));
        String skipped = options.text("skip");
        return skipped == null ? all : all.filter((key, value) -> !skipped.equals(value));
    }

    private void write(KStream<String, Long> counts) {
        counts.mapValues(count -> count == null ? null : Long.toString(count)).to(output, Produced.with(TEXT, TEXT));
    }

    private Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store() {
        return materialized(LONG);
    }

    private Materialized<String, String, KeyValueStore<Bytes, byte[]>> text() {
        return materialized(TEXT);
    }

    private <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> materialized(Serde<V> values) {
        String store = options.text("store");
        return store == null
                ? Materialized.with(TEXT, values)
                : Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(store)
                        .withKeySerde(TEXT)
                        .withValueSerde(values);
    }
}
