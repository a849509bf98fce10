#!/usr/bin/env bash
# A Spark executor in this image: what `command` of the executor pod template names (config/deploy/kubernetes-spark.yaml).
# Spark on Kubernetes says everything by variables, as it does to the entry point of its own image, which is not part of PySpark.
set -euo pipefail

[ "${1:-executor}" = executor ] || { echo "this image runs only executors by this script, not $1" >&2; exit 2; }

python=${RECOVERYD_PYTHON:-/opt/recoveryd/bin/python3}
home=$("$python" -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')
export SPARK_HOME=$home

# SPARK_JAVA_OPT_0, _1, ... in their order, each one option that may hold spaces.
options=()
for ((number = 0; ; number++)); do
    name=SPARK_JAVA_OPT_$number
    [ -n "${!name+set}" ] || break
    options+=("${!name}")
done

exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$home/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
