# Append at sizes from a gamma distribution
#
# $count appends.

set $dir=/tmp
set $nthreads=1
set $cached=false
set $sync=false
set $count=128k
set $iosize=randvar(type=gamma,min=1k,mean=5632,gamma=1500)

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

echo "Append at sizes from a gamma distribution"
run 60
