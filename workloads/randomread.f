# Random reads
#
# At random places of one file, $iosize at a time. $workingset restricts the places to so many bytes;
# 0 is the whole file.

set $dir=/tmp
set $filesize=5g
set $iosize=8k
set $nthreads=1
set $workingset=0
set $directio=0

define file name=largefile1,path=$dir,size=$filesize,prealloc,reuse,paralloc

define process name=rand-io,instances=1
{
  thread name=rand-read-thread,memsize=5m,instances=$nthreads
  {
    flowop read name=rand-read1,filename=largefile1,iosize=$iosize,random,workingset=$workingset,directio=$directio
  }
}

echo "Random reads"
run 60
