# Writes at random places, then one fsync
#
# $iters writes of $iosize, then an fsync.

set $dir=/tmp
set $cached=false
set $count=1
set $filesize=1g
set $iosize=8k
set $iters=16384
set $nthreads=1

set mode quit firstdone

define file name=bigfile,path=$dir,size=$filesize,prealloc,cached=$cached

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop write name=write-file,filename=bigfile,random,iosize=$iosize,iters=$iters
    flowop fsync name=sync-file
    flowop finishoncount name=finish,value=$count
  }
}

echo "Writes at random places, then one fsync"
run 60
