# Read at random places of a large file
#
# $iosize at a time, $bytes in all. With $cached=false memory forgets the file beforehand.

set $dir=/tmp
set $bytes=128m
set $cached=false
set $filesize=1g
set $iosize=2k
set $iters=1
set $nthreads=1

set mode quit firstdone

define file name=bigfile1,path=$dir,size=$filesize,prealloc,reuse,cached=$cached

define process name=filemicro,instances=1
{
  thread name=filemicro-thread,memsize=10m,instances=$nthreads
  {
    flowop read name=read-file,filesetname=bigfile1,random,iosize=$iosize,iters=$iters
    flowop finishonbytes name=finish,value=$bytes
  }
}

echo "Read at random places of a large file"
run 60
