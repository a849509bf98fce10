package sample;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * A Kafka Streams application as people run them, made to be stopped, killed, reset and reprocessed.
 *
 * <p>On stdout it says `restored STORE PARTITION RECORDS` for each store that it filled from its changelog, `ready`
 * when it first runs, and `stopped` at its end. SIGTERM closes it, it leaves its group, and its exit code is 0; it is 1
 * when the application failed, 2 for a wrong command line.
 */
public final class App {
    private static final Duration CLOSE = Duration.ofSeconds(240); // what is not closed by then is not committed

    private App() {}

    public static void main(String[] words) throws IOException, InterruptedException {
        Options options;
        Topology topology;
        try {
            options = new Options(words);
            StreamsBuilder builder = new StreamsBuilder();
            new Topologies(options, builder).build();
            topology = builder.build(properties(options));
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            System.exit(2);
            return;
        }
        if (options.text("topology-file") != null) {
            Files.writeString(Path.of(options.text("topology-file")), topology.describe().toString());
        }
        run(new KafkaStreams(topology, properties(options)));
    }

    private static void run(KafkaStreams streams) throws InterruptedException {
        CountDownLatch failed = new CountDownLatch(1);
        AtomicBoolean wasReady = new AtomicBoolean();
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING && !wasReady.getAndSet(true)) {
                System.out.println("ready");
            }
            if (now == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        streams.setGlobalStateRestoreListener(new Restored());
        // A signal ends a JVM with 128 + its number, whatever its hooks do; one that halts decides itself.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean isClosed = streams.close(CloseOptions.timeout(CLOSE)
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            boolean isWell = isClosed && failed.getCount() > 0;
            System.out.println("stopped");
            System.out.flush();
            Runtime.getRuntime().halt(isWell ? 0 : 1);
        }));
        streams.start();
        failed.await();
        System.exit(1);
    }

    private static Properties properties(Options options) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, options.text("application-id"));
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        properties.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state-dir"));
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.text("threads", "1"));
        String protocol = options.text("protocol", "classic");
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        if (protocol.equals("classic")) {
            // A killed application keeps its place for this long; with the other protocol the broker says it.
            properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
        }
        properties.put(
                StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
                options.is("eos") ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        properties.putAll(options.settings);
        return properties;
    }

    private static final class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long records) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long records) {
            System.out.println("restored " + store + " " + partition.partition() + " " + records);
        }
    }
}
