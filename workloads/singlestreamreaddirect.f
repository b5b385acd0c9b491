# Single stream read, direct
#
# One thread reads one file from its beginning on, past the cache, $iosize at a time.

set $dir=/tmp
set $filesize=5g
set $iosize=1m
set $nthreads=1

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse

define process name=seqread,instances=1
{
  thread name=seqread,memsize=10m,instances=$nthreads
  {
    flowop read name=seqread,filename=largefile1,iosize=$iosize,directio
  }
}

echo "Single stream read, direct"
run 60
