# Single stream write, direct
#
# One thread writes one file from its beginning on, past the cache, $iosize at a time.
# A stream of writes goes on beyond the size that the file had: $filesize is only the beginning.

set $dir=/tmp
set $filesize=5g
set $iosize=1m
set $nthreads=1

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse

define process name=seqwrite,instances=1
{
  thread name=seqwrite,memsize=10m,instances=$nthreads
  {
    flowop write name=seqwrite,filename=largefile1,iosize=$iosize,directio
  }
}

echo "Single stream write, direct"
run 60
