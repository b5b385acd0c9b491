# Files at random, several open together
#
# Five threads read and append to files that a gamma distribution picks.

set $dir=/tmp
set $meandirwidth=20
set $nthreads=5
set $nfiles=10000

set $wrtiosize=randvar(type=gamma,min=512,round=512,mean=16k)
set $rdiosize=randvar(type=tabular,min=8k,round=1k,randtable={{85,8k,8k},{15,8k,64k}})
set $meanfilesize=16k
set $fileidx=randvar(type=gamma,min=0,mean=$nfiles,gamma=100)

define fileset name=bigfileset,path=$dir,size=$meanfilesize,filesizegamma=1500,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=netclient,instances=1
{
  thread name=fileuser,memsize=10m,instances=$nthreads
  {
    flowop openfile name=openfile1,filesetname=bigfileset,indexed=$fileidx,fd=1
    flowop openfile name=openfile2,filesetname=bigfileset,indexed=$fileidx,fd=2
    flowop openfile name=openfile3,filesetname=bigfileset,indexed=$fileidx,fd=3
    flowop appendfilerand name=appendfilerand1,iosize=$wrtiosize,fd=1
    flowop closefile name=closefile1,fd=1
    flowop readwholefile name=readfile1,iosize=$rdiosize,fd=2
    flowop readwholefile name=readfile2,iosize=$rdiosize,fd=3
    flowop closefile name=closefile2,fd=2
    flowop closefile name=closefile3,fd=3
  }
}

echo "Random file access"
run 60
