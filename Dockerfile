# The endpoint as an image: docker build -t kimi-xtml-frontend .
FROM rust:1.95-slim-trixie AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p kimi-xtml-frontend

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/release/kimi-xtml-frontend /usr/local/bin/
USER 65532:65532
ENV KIMI_XTML_HOST=0.0.0.0
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["kimi-xtml-frontend"]
