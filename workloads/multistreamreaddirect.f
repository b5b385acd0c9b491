# Several streams read, direct
#
# The name that Solaris gave it. $nstreams threads, each with a file of its own: the first file that a
# thread opens is the next of the set, and it stays on it. $iosize at a time, past the cache.

set $dir=/tmp
set $nstreams=4
set $filesize=1g
set $iosize=1m

define fileset name=streams,path=$dir,size=$filesize,entries=$nstreams,dirwidth=1024,dirgamma=0,prealloc,reuse

define process name=seqread,instances=1
{
  thread name=seqread,memsize=10m,instances=$nstreams
  {
    flowop read name=seqread,filesetname=streams,iosize=$iosize,directio
  }
}

echo "Several streams read, direct"
run 60
