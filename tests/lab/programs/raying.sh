# Ray as SkyPilot's examples have it: the head on the first node, where the others join. What a
# script has started is ended with it, so those stay for as long as the head is there.
head=$(head -n1 <<< "$SKYPILOT_NODE_IPS") port=${RAY_PORT:-6379}
export RAY_USAGE_STATS_ENABLED=0
small="--num-cpus 1 --object-store-memory 80000000"
if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
  ray start --head --port "$port" --include-dashboard=false --temp-dir /var/tmp/ray $small > start.log
  python raying.py "$head:$port"
else
  until (exec 3<> "/dev/tcp/$head/$port") 2> /dev/null; do sleep 0.2; done
  ray start --address "$head:$port" $small > start.log
  while (exec 3<> "/dev/tcp/$head/$port") 2> /dev/null; do sleep 0.5; done
fi
