# Several streams write, direct
#
# The name that Solaris gave it. $nstreams threads, each with a file of its own: the first file that a
# thread opens is the next of the set, and it stays on it. $iosize at a time, past the cache.

set $dir=/tmp
set $nstreams=4
set $filesize=1g
set $iosize=1m

define fileset name=streams,path=$dir,size=$filesize,entries=$nstreams,dirwidth=1024,dirgamma=0,prealloc,reuse

define process name=seqwrite,instances=1
{
  thread name=seqwrite,memsize=10m,instances=$nstreams
  {
    flowop write name=seqwrite,filesetname=streams,iosize=$iosize,directio
  }
}

echo "Several streams write, direct"
run 60
