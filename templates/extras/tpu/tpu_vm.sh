#!/bin/bash
# A Cloud TPU machine: extras/tpu/tpu_vm.sh NAME ZONE [--KEY VALUE ...], from the project's folder.
# Creates the machine if needed, copies the current project, trains, and fetches runs/.
# The machine keeps its runs, and the same command resumes them. Delete the machine afterwards:
# gcloud compute tpus tpu-vm delete NAME --zone ZONE
set -euo pipefail

name=$1 zone=$2
shift 2
type=${TPU_TYPE:-v5litepod-8}
version=${TPU_VERSION:-tpu-vm-tf-2.20.0-pjrt}   # its TensorFlow, 2.20 or newer
project={{ cookiecutter.project_slug }}

on_tpu() {
  gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --command "$1"
}

if ! gcloud compute tpus tpu-vm describe "$name" --zone "$zone" > /dev/null 2>&1; then
  gcloud compute tpus tpu-vm create "$name" --zone "$zone" \
    --accelerator-type "$type" --version "$version"
fi
# Copying onto an existing folder would end up inside it, so the copy gets another name first.
# runs/ never leaves the folder, so nothing is lost if the connection breaks.
on_tpu "rm -rf $project.new"
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" "$PWD" "$name:$project.new"
on_tpu "set -e; mkdir -p $project
if [ -d $project/runs ]; then rm -rf $project.new/runs; fi
find $project -mindepth 1 -maxdepth 1 ! -name runs -exec rm -rf {} +
find $project.new -mindepth 1 -maxdepth 1 -exec mv -t $project {} +
rm -rf $project.new"
on_tpu "cd $project && pip install -r requirements.txt"
on_tpu "cd $project && python3 train.py --strategy tpu --devices.tpu local --buckets 1 --devices.precision mixed_bfloat16${1:+$(printf ' %q' "$@")}"
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" "$name:$project/runs" .
