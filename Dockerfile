# An image with the commands and all extras but Spark. The logs are mounted; the user of the container needs to read them:
#
#   docker build -t binlogio .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" binlogio verify archive
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY CMakeLists.txt LICENSE README.md pyproject.toml ./
COPY binlogio binlogio
COPY cli cli
COPY binlog_server binlog_server
COPY spark_datasource spark_datasource
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[delta,iceberg,polars,fsspec,duckdb,encryption]'

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'binlogio[delta,iceberg,polars,fsspec,duckdb,encryption]' \
    && python -c "import binlogio; assert binlogio.KERNEL == 'compiled', 'the kernel was not compiled'" \
    && useradd --uid 10001 --create-home binlogio
USER 10001
WORKDIR /work
ENTRYPOINT ["binlogio"]
