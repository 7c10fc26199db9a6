//! A small service whose reports can't be overwritten by a holder that lost its lock.
//!
//! ```console
//! $ cargo run -p bell-fence-http --example fenced_service -- 127.0.0.1:7878 sqlite:fences.db reports
//! $ curl -X PUT -H 'X-Fence: 7' --data new http://127.0.0.1:7878/reports/42
//! $ curl -X PUT -H 'X-Fence: 6' --data old http://127.0.0.1:7878/reports/42    # 412: stale
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Path as Segment, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Router};
use bell_core::lock::Fence;
use bell_fence_http::{FenceLayer, Register};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, store, folder] = arguments.as_slice() else {
        return Err("usage: fenced_service ADDRESS STORE FOLDER".into());
    };
    let register = Register::open(store, "reports/").await?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service(register, Path::new(folder))).await?;
    Ok(())
}

/// Reports in a folder, behind the guard. The handlers know nothing of it.
pub(crate) fn service(register: Register, folder: &Path) -> Router {
    Router::new()
        .route("/reports/{id}", get(read).put(write))
        .layer(FenceLayer::new(register))
        .with_state(Arc::new(folder.to_path_buf()))
}

async fn read(State(folder): State<Arc<PathBuf>>, Segment(id): Segment<u32>) -> Result<String, StatusCode> {
    std::fs::read_to_string(file(&folder, id)).map_err(|_| StatusCode::NOT_FOUND)
}

async fn write(
    State(folder): State<Arc<PathBuf>>,
    Segment(id): Segment<u32>,
    // What a database with a guard of its own would be given along with the write.
    Extension(fence): Extension<Fence>,
    text: String,
) -> Result<String, StatusCode> {
    std::fs::write(file(&folder, id), text).map_err(|_| StatusCode::INSUFFICIENT_STORAGE)?;
    Ok(format!("report {id} written with fence {fence}\n"))
}

fn file(folder: &Path, id: u32) -> PathBuf {
    folder.join(id.to_string())
}
