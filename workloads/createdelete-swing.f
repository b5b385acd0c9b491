# All files come, then all go
#
# One thread creates all files and wakes the other, which removes them all and wakes the first. With
# $eventrate the creating goes at so many files a second.

set $dir=/tmp
set $nfiles=1000
set $filesize=500k
set $meandirwidth=1000
set $eventrate=0

eventgen rate=$eventrate

define fileset name=manyfiles,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$meandirwidth,dirgamma=0

define flowop name=createandclose
{
  flowop createfile name=createfile,filesetname=manyfiles,fd=1
  flowop writewholefile name=writewholefile,filesetname=manyfiles,fd=1
  flowop closefile name=closefile,fd=1
  flowop eventlimit name=crlimit
}

define process name=crproc
{
  thread name=crthread
  {
    flowop createandclose name=createandclose,iters=$nfiles
    flowop wakeup name=wakeupdelproc,target=delprocblock
    flowop block name=crprocblock
  }
}

define process name=delproc
{
  thread name=delthread
  {
    flowop block name=delprocblock
    flowop deletefile name=dodelete,filesetname=manyfiles,iters=$nfiles
    flowop wakeup name=crprocwake,target=crprocblock
  }
}

echo "Create and delete in turn"
run 60
