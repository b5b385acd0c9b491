# Append at random sizes up to a limit
#
# $count appends of less than $iosize.

set $dir=/tmp
set $cached=false
set $count=128k
set $iosize=8k
set $nthreads=1
set $sync=false

set mode quit firstdone

define file name=bigfile,path=$dir,size=0,prealloc,cached=$cached

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop openfile name=open-file,filename=bigfile,fd=1
    flowop appendfilerand name=appendrand-file,dsync=$sync,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=close,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "Append at random sizes up to a limit"
run 60
