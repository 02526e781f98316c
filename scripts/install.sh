#!/bin/sh
# What `pip install` with these arguments would, into the environment of the Python that comes before them, several times as fast:
# by uv, which is on the path or which pip puts beside the packages. By pip itself with UV=pip, or where uv cannot be had.
set -eu
python=$1
shift
beside=$(dirname "$python")/../uv
uv=${UV:-$(command -v uv || echo "$beside/bin/uv")}
if [ "$uv" = "$beside/bin/uv" ] && [ ! -x "$uv" ]; then
	"$python" -m pip install --quiet --only-binary :all: --target "$beside" "$(grep '^uv==' constraints.txt)" || uv=pip
fi
if [ "$uv" = pip ]; then
	exec "$python" -m pip install --quiet "$@"
fi
# uv reads no settings of pip's. Where pip looks decides which builds of torch there are, so uv looks there, and as pip does takes
# the newest of all places, a build for processors (+cpu) before the one without a name.
"$python" -m pip config list \
	| sed -nE -e 's/\\n/ /g' -e "s/^(:env:|global)\.(index-url|extra-index-url|find-links)='(.*)'\$/\2 \3/p" \
	| awk 'NF > 1 && !seen[$1]++ { for (i = 2; i <= NF; i++) print "--" $1, $i }' \
	| "$uv" pip install --quiet --python "$python" --index-strategy unsafe-best-match --requirements - "$@"
