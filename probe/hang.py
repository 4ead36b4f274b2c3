import sys, torch, time
sys.argv=['x','none:']
src=open('probe/time2.py').read().split("rows=[dict()")[0].split("two=lambda")[0]
exec(src)
import faulthandler; faulthandler.dump_traceback_later(25, exit=True)
k=load('probe/jpoly.lf',steps=4,rows=128)
for h,w in ((8,8),(64,64),(300,100),(300,300),(1000,1000),(1000,1003)):
    a=rnd(h,w); b=a.clone(); k(a,b,8); torch.cuda.synchronize(); print('ok',h,w,flush=True)
