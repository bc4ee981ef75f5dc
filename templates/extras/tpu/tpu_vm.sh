#!/bin/bash
# A Cloud TPU machine: extras/tpu/tpu_vm.sh NAME ZONE [--KEY VALUE ...], from the project's folder.
# Makes the machine unless it is there, trains on it, and fetches runs/. Delete it afterwards:
# gcloud compute tpus tpu-vm delete NAME --zone ZONE
set -euo pipefail

name=$1 zone=$2
shift 2
type=${TPU_TYPE:-v5litepod-8}
version=${TPU_VERSION:-tpu-vm-tf-2.20.0-pjrt}   # its TensorFlow, 2.20 or newer

on_tpu() {
  gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --command "cd {{ cookiecutter.project_slug }} && $1"
}

if ! gcloud compute tpus tpu-vm describe "$name" --zone "$zone" > /dev/null 2>&1; then
  gcloud compute tpus tpu-vm create "$name" --zone "$zone" \
    --accelerator-type "$type" --version "$version"
fi
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" "$PWD" "$name:{{ cookiecutter.project_slug }}"
on_tpu "pip install -r requirements.txt"
on_tpu "python3 train.py --strategy tpu --devices.tpu local --buckets 1 --devices.precision mixed_bfloat16$(printf ' %q' "$@")"
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" "$name:{{ cookiecutter.project_slug }}/runs" .
