import sys, time
import numpy as np, torch, triton
from unbounded.gpu import forms, pick, sets
dev=torch.device('cuda')
def bench(f,n=10):
    f(); torch.cuda.synchronize(); ts=[]
    for _ in range(n):
        a=torch.cuda.Event(enable_timing=True); b=torch.cuda.Event(enable_timing=True)
        a.record(); f(); b.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(b))
    return float(np.median(ts))
def run(n,D,K,dt,cfgs):
    torch.manual_seed(0)
    mu=4*torch.randn(K,D,device=dev); zt=torch.randint(0,K,(n,),device=dev)
    X=(mu[zt]+torch.randn(n,D,device=dev)).contiguous()
    rng=np.random.default_rng(0); W=np.eye(D)+.02*rng.normal(size=(K,D,D))
    off=np.einsum('ki,kij->kj',mu.double().cpu().numpy(),W); bias=np.linalg.slogdet(W)[1]
    atoms=forms.Atoms(W.astype(dt),off.astype(dt),bias.astype(dt))
    z=torch.zeros(n,dtype=torch.int32,device=dev); ln=torch.full((n,),-1e3,dtype=torch.float64,device=dev); mk=torch.zeros(n,dtype=torch.int8,device=dev)
    keys=torch.arange(3,device=dev)*77777; lone=torch.zeros(4,dtype=torch.int8,device=dev)
    for group,tile,BM,w,s,per in cfgs:
        sh=forms.shape_of(atoms,K); sh=sh._replace(group=group or sh.group, tile=tile or sh.tile)
        try:
            sc=forms.scored(atoms,K,sh,dev); rows=pick.PickRows(X,z,ln,mk,n,D,0); ap=pick.Apart(keys,lone,K,0.,.001,16.)
            P=132*per; room=torch.empty(P*sh.tile*BM,dtype=sc.bias.dtype,device=dev)
            f=lambda: pick._pick[(P,)](rows,sc,ap,0,room,sh,BM,num_warps=w,num_stages=s)
            t0=time.time(); f(); torch.cuda.synchronize(); t0=time.time()-t0
            t=bench(f); fl=2*n*K*D*D
            print(f'pick D={D} K={K} {dt} group={sh.group} tile={sh.tile} BM={BM} w={w} s={s} per={per}: {t:.3f} ms {fl/t/1e9:.0f} TF agree {(z==zt).float().mean().item():.4f} compile {t0:.1f}',flush=True)
        except Exception as e: print('FAIL',D,K,dt,group,BM,w,s,str(e)[:120].replace('\n',' '),flush=True)
run(1_000_000,16,50,'float32',[(4,0,128,8,2,4),(4,0,128,4,2,4),(4,0,64,4,2,8),(8,0,128,8,2,4),(4,0,64,4,3,8),(4,0,128,8,3,4),(8,0,64,4,2,8),(4,16,128,8,2,4)])
run(1_000_000,16,50,'float64',[(4,0,32,4,2,8),(4,0,64,4,2,8),(2,0,32,4,2,8)])
run(1_000_000,64,100,'float32',[(1,0,128,8,3,2),(1,0,128,8,2,2),(1,0,128,4,2,2),(1,0,64,4,3,4),(1,0,64,4,2,4),(1,32,128,8,2,2),(1,0,128,8,1,2)])
run(1_000_000,64,100,'float64',[(1,0,64,4,2,4),(1,0,32,4,2,8),(1,0,64,4,1,4)])
run(200_000,128,20,'float32',[(1,0,64,4,1,4)])
run(200_000,128,20,'float64',[(1,0,32,4,1,4)])
