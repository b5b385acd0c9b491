# List directories
#
# $nthreads threads read directories of some $meandirwidth entries.

set $dir=/tmp
set $nfiles=50000
set $meandirwidth=5
set $nthreads=16

define fileset name=bigfileset,path=$dir,size=0,entries=$nfiles,dirwidth=$meandirwidth,prealloc

define process name=dirlist,instances=1
{
  thread name=dirlist-thread,memsize=10m,instances=$nthreads
  {
    flowop listdir name=list1,filesetname=bigfileset
  }
}

echo "List directories"
run 60
