# Append, with an fsync now and then
#
# An fsync after $writeiters appends of $iosize; $fsynccount of them.

set $dir=/tmp
set $iosize=8k
set $writeiters=1024
set $fsynccount=128

set mode quit firstdone

define file name=bigfile,path=$dir,size=0,prealloc

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=1
  {
    flowop appendfile name=append-file,filename=bigfile,iosize=$iosize,iters=$writeiters
    flowop fsync name=sync-file
    flowop finishoncount name=finish,value=$fsynccount,target=sync-file
  }
}

echo "Append, with an fsync now and then"
run
