//! What variables are where they are not set, in words.
use super::*;

impl Variable {
    /// What holds where it is not set.
    pub fn default(&self) -> &'static str {
        match self.name {
            NET => "the interface that leads to the other hosts",
            PORT_RANGE => "any port",
            NET_TIMEOUT => "60",
            FABRIC | LONG | COLL | RMA | WAIT => "auto",
            REG_CACHE => "256M",
            RDMA_TIMEOUT => "1",
            FORCE_NET | CHECK | XRC => "off",
            CMA => "on, where the kernel allows it",
            EAGER_MAX => "16384",
            PMI_VERSION => "1",
            WAIT_WARN => "30",
            CONNECT_TIMEOUT => "180",
            CONNECT => "on-demand",
            CONNECT_THREADS => "as many as a process has cores",
            QP_BUDGET | CONN_MEMORY => "no limit",
            QP_MAX => "131072",
            "BANYAN_CC" => "cc",
            "BANYAN_CXX" => "c++",
            _ => "none",
        }
    }
}
