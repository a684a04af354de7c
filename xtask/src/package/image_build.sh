# Builds the image of $1, a Dockerfile, with the program $2 in place of the one that its first stage compiles, in the folder $3.
# BUILDER: a command that builds images, with its options.
set -e
dockerfile=$1 program=$2 folder=$3
cd "$folder"
base=$(awk '/^FROM /{image = $2} END {print image}' "$dockerfile")
if ! $BUILDER inspect --type image "$base" >/dev/null 2>&1 && ! $BUILDER pull "$base" >/dev/null 2>&1; then
    echo "no registry has $base for us: its like is made from Debian's packages"
    [ -e base.tar ] || { mmdebstrap --quiet --variant=minbase --format=tar bookworm part && mv part base.tar; }
    printf 'FROM scratch\nADD base.tar /\n' >Base
    $BUILDER build --quiet --file Base --tag "docker.io/library/$base" .
fi
mkdir -p build/src/target/release
cp "$program" build/src/target/release/drover
awk '/^FROM /{stage++} stage == 2' "$dockerfile" >Last
$BUILDER build --quiet --pull=never --format docker --network host --file Last --build-context build="$folder/build" --tag drover-image .
