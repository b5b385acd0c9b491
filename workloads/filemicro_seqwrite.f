# Write a large file from its beginning on
#
# $count appends of $iosize.

set $dir=/tmp
set $cached=false
set $count=1024
set $iosize=1m
set $nthreads=1
set $sync=false

set mode quit firstdone

define file name=bigfile,path=$dir,size=0,prealloc,cached=$cached

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop appendfile name=write-file,dsync=$sync,filename=bigfile,iosize=$iosize,iters=$count
    flowop finishoncount name=finish,value=1
  }
}

echo "Write a large file from its beginning on"
run 60
