# Create a file and append to it
#
# $count appends of $iosize, durable each with $sync=true.

set $dir=/tmp
set $count=1024
set $iosize=1m
set $nthreads=1
set $sync=false

set mode quit firstdone

define file name=largefile,path=$dir,size=0,prealloc

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop appendfile name=append-file,filename=largefile,dsync=$sync,iosize=$iosize
    flowop finishoncount name=finish,value=$count
  }
}

echo "Create a file and append to it"
run 60
