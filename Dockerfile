# recoveryd: the daemon, its command line, and a Spark that runs its jobs inside the same container.
#
#   docker build -t recoveryd .
#   docker run --rm -e RECOVERYD_BOOTSTRAP_SERVERS=broker:9092 -p 127.0.0.1:8712:8712 recoveryd
#
# BASE    any Debian with Python 3.11 or newer as `python3`; a JRE 17 and tini are added when it has none
# BUILDER what the first stage starts from: BASE, or one that brings its own pip settings and wheels (no network needed then)

ARG BASE=python:3.11-slim-bookworm
ARG BUILDER=${BASE}

FROM ${BUILDER} AS builder
WORKDIR /src

# The dependencies first, in the versions the tests run with: this layer stays while only the sources change. No pip goes into the environment itself.
# EXTRAS: one extra of pyproject.toml besides, such as `kubernetes`.
ARG EXTRAS=
COPY pyproject.toml constraints.txt ./
RUN python3 -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extra = p["optional-dependencies"][sys.argv[1]] if sys.argv[1] else []; print(*p["dependencies"], *extra, sep="\n")' \
        "${EXTRAS}" > requirements.txt \
    && python3 -m venv --without-pip /opt/recoveryd \
    && python3 -m pip --python /opt/recoveryd/bin/python3 install --no-cache-dir \
        --requirement requirements.txt --constraint constraints.txt

# Of Spark's 490 MB, what no job of this daemon can reach: examples and sample data, machine learning, the store of
# streaming state and of the history server, Hive and its database. tests/containers runs a whole replay without them.
COPY scripts/containers/trim_spark.py ./
RUN /opt/recoveryd/bin/python3 trim_spark.py

COPY README.md ./
COPY daemon daemon
COPY spark_jobs spark_jobs
COPY sandbox sandbox
RUN python3 -m pip --python /opt/recoveryd/bin/python3 install --no-cache-dir --no-deps .
COPY scripts/containers/healthcheck.py scripts/containers/executor.sh /opt/recoveryd/

FROM ${BASE}
ARG VERSION=0.2.0.dev0
LABEL org.opencontainers.image.title="recoveryd" \
      org.opencontainers.image.description="An event-driven recovery daemon for Apache Kafka" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"

# Versions are the base's to choose: a pin would fail with Debian's next security update. The JRE's package links a manual
# page, and slim images have no folder for it.
# hadolint ignore=DL3008
RUN if ! command -v java > /dev/null || ! command -v tini > /dev/null; then \
        mkdir -p /usr/share/man/man1 \
        && apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openjdk-17-jre-headless tini \
        && apt-get clean && rm -rf /var/lib/apt/lists/*; \
    fi \
    && groupadd --system --gid 10001 recoveryd \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/recoveryd --create-home recoveryd

COPY --from=builder /opt/recoveryd /opt/recoveryd

# Logs and job files of attempts go to $XDG_STATE_HOME/recoveryd; state is in Kafka, so nothing here needs a volume.
# Inside a container the HTTP port is reached from outside it, so it listens on all of the container's addresses.
ENV PATH=/opt/recoveryd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib \
    RECOVERYD_HTTP__LISTEN=0.0.0.0:8712
WORKDIR /var/lib/recoveryd
USER 10001:10001
EXPOSE 8712
STOPSIGNAL SIGTERM

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-I", "-S", "/opt/recoveryd/healthcheck.py"]

ENTRYPOINT ["tini", "--", "recoveryd"]
CMD ["run"]
