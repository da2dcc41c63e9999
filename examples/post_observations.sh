#!/bin/sh
# Post observations to an agent, each stored exactly once, however often this is run or broken off.
#
#   sh examples/post_observations.sh http://127.0.0.1:8001 [points.csv [client]]
#
# The csv has a line of names, then x1,x2,...,y in every line. Without one a few points are made up. A client is whoever
# sends these points, in letters and digits: for other points take another name. Where the agent asks for tokens,
# DELBO_TOKENS names a folder with the file ingest.

url=${1:?give the address of an agent, like http://127.0.0.1:8001} csv=$2 client=${3:-example-curl}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

if [ -z "$csv" ]; then
    csv=$work/points.csv
    awk 'BEGIN { print "x1,x2,y"; for (n = 0; n < 30; n++) print n % 6 "," int(n / 6) "," (n % 6 > int(n / 6)) }' > "$csv"
fi

# One JSON object a line, and a last line that ends the stream. The agent marks them (client, 0), (client, 1), ...
awk -F, '{ sub(/\r$/, "") }
         NR > 1 && NF { x = $1; for (n = 2; n < NF; n++) x = x "," $n; print "{\"x\": [" x "], \"y\": " $NF "}" }
         END { print "{\"end\": true}" }' "$csv" > "$work/lines" || exit 1

# In a file, as everybody on this machine sees a command line.
touch "$work/token"
if [ -n "$DELBO_TOKENS" ]; then
    awk '{ sub(/\r$/, "") } /^[^#]/ { print "Authorization: Bearer " $1; exit }' "$DELBO_TOKENS/ingest" > "$work/token" || exit 1
fi

# When something goes wrong all lines are sent again: the agent stores those that it does not have yet.
while true; do
    status=$(curl --silent --show-error --connect-timeout 10 --max-time 600 \
        --header 'Content-Type: application/x-ndjson' --header "@$work/token" --data-binary "@$work/lines" \
        --dump-header "$work/headers" --output "$work/answer" --write-out '%{http_code}' \
        "$url/v1/observations?client=$client&sequence=0") || status=000
    case $status in
        200) cat "$work/answer"; echo; exit 0 ;;
        000 | 429 | 502 | 503 | 504) ;;  # no connection, or no room now
        *) cat "$work/answer" >&2; exit 1 ;;
    esac
    pause=$(awk 'tolower($1) == "retry-after:" { print $2 + 0 }' "$work/headers" 2> "$work/none")
    echo "post_observations: $status, trying again in ${pause:=1} s" >&2
    rm -f "$work/headers"
    sleep "$pause"
done
