package main

import (
	_ "github.com/rancher/wrangler/v3/pkg/leader"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/component-base/cli"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {}
