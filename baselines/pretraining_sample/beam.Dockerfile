# The workers of prepare_with_beam.py: Beam's own image, and in it what prepares a block of text.
# PYTHON and BEAM are the versions of the machine that starts the pipeline:
# docker build -f beam.Dockerfile -t IMAGE --build-arg PYTHON=3.11 --build-arg BEAM=2.77.0 .
ARG PYTHON
ARG BEAM
FROM apache/beam_python${PYTHON}_sdk:${BEAM}
COPY requirements-beam.txt /project/
RUN pip install --no-cache-dir -r /project/requirements-beam.txt
COPY core /project/core
COPY corpus /project/corpus
ENV PYTHONPATH=/project
