#!/bin/sh
# Issue 4 on one GPU, in order of importance; every call stops by itself and goes on where it stopped:
#
#   benchmarks/gpu_batch.sh MODEL.gguf IDS.npz COMMIT OUT [PART]...
#
# PART  what                                                                                 seconds (estimated, not measured)
# fleet    the six filled batches: every row at its own pace, against all other policies     900: two calls of 500
# half     half of the rows easy text, half hard: demo 8000x64, 8B cost 8000x64              180
# batches  1 to 256 rows, drafter on and off, with its figure                                240
# soak     every request as if alone, for 200 seconds, in bfloat16                           260
# timeline 32 rows of the demo model and of 8B cost, pacers fleet and synchronised           100
#
# Without a PART all of them, each with its own limit, which is more than one call of 10 minutes: name parts. A batch that
# is finished is kept in OUT. It needs `glimpse` importable (PYTHONPATH=src). A model's first batch compiles its kernels
# for some 35 s, and mixed steps capture graphs for some 14 sizes besides.
set -u
model=$1 ids=$2 commit=$3 out=$4
shift 4
[ $# -gt 0 ] || set -- fleet half batches soak timeline
common="--ids $ids --commit $commit --out $out --debug"
big="$model@llama-3.1-8b"
code=0
for part in "$@"; do
    echo "== $part"
    case $part in
    fleet) # No batch begins after 360 s, and one takes 70 to 180 s; its turns stop after 30 s.
        python3 -m glimpse bench fleet -m "$model" $common --seconds 360 --cell-seconds 30 \
            8000x64 8000x256 "$big:8000x64:3+7" "$big:32000x16:3+7" \
            "$model@1.7b:8000x32:3+7" "$model@1.7b:32000x16:3+7" ;;
    half)
        python3 -m glimpse bench fleet -m "$model" $common --out "$out/half" --seconds 100 --cell-seconds 40 \
            8000x64:half "$big:8000x64:3+7:half" ;;
    batches) # In this order the most telling sizes come first; one reading of the prompts serves all.
        python3 -m glimpse bench batches -m "$model" $common --seconds 200 --cell-seconds 12 \
            --context 8000 --batch 256,64,16,4,1,128,32,8,2 ;;
    soak)
        python3 -m benchmarks.soak --device cuda -m "$model" --ids "$ids" --seconds 200 --commit "$commit" --out "$out" ;;
    timeline)
        for pacer in fleet synchronised; do
            python3 -m glimpse bench timeline -m "$model" $common --out "$out/$pacer" --pacer $pacer --steps 480 --seconds 60 \
                8000x32 "$big:8000x32"
        done ;;
    *) echo "unknown part $part; known: fleet half batches soak timeline" >&2; code=2 ;;
    esac || code=$?
done
exit $code
