# The command in an image: docker build -t mtlmon .
# docker run --rm -i -v "$PWD:/data:ro" mtlmon policy.mtl events.csv
FROM python:3.12-slim AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY . /source
RUN pip wheel --no-cache-dir --wheel-dir /wheels "/source[tables,report,plot]"

FROM python:3.12-slim
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "mtlmon[tables,report,plot]" \
    && useradd --no-create-home --uid 10001 mtlmon
USER 10001
WORKDIR /data
ENTRYPOINT ["mtlmon"]
CMD ["--help"]
