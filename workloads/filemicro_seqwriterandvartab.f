# Append at sizes from a table
#
# $count appends.

set $dir=/tmp
set $nthreads=1
set $cached=false
set $sync=false
set $count=128k
set $iosize=randvar(type=tabular,min=1k,randtable={{80,1k,4k},{15,4k,16k},{5,16k,64k}})

set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,entries=$nthreads,dirwidth=1024,prealloc=100,cached=$cached

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop openfile name=open-file,filesetname=bigfileset,fd=1
    flowop appendfile name=write-file,dsync=$sync,iosize=$iosize,fd=1,iters=$count
    flowop closefile name=close,fd=1
    flowop finishoncount name=finish,value=1
  }
}

echo "Append at sizes from a table"
run 60
