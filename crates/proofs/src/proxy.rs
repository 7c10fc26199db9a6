//! A stretch of network that can be broken: connections to it go on to a server, until they are held up, slowed down,
//! swallowed or reset.
//!
//! It knows nothing of what is said. As on a real network, what is held up arrives late, and what gets lost takes its connection
//! with it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::dice::Dice;

/// What happens to data in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// It arrives.
    #[default]
    Open,
    /// It waits until the way is open.
    Held,
    /// It arrives later by something between these.
    Slow {
        /// At least.
        least_ms: u64,
        /// At most.
        most_ms: u64,
    },
    /// On every other connection it is lost, and with it the connection once the way is open again.
    Lost,
}

/// The state of a stretch of network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weather {
    /// From clients to the server.
    pub to_server: Way,
    /// From the server to clients.
    pub to_client: Way,
    /// Raised, it resets every connection.
    resets: u64,
}

/// Listens for clients of one server.
pub struct Proxy {
    port: u16,
    weather: watch::Sender<Weather>,
    _runtime: Runtime,
}

impl Proxy {
    /// Leads to the server on this port of this machine.
    ///
    /// # Errors
    /// If the system gives no port or no thread.
    pub fn to(server: u16) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        let weather = watch::Sender::new(Weather::default());
        runtime.spawn(accept(listener, (Ipv4Addr::LOCALHOST, server).into(), weather.subscribe()));
        Ok(Self { port, weather, _runtime: runtime })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what happens to data, from now on and on every connection.
    pub fn set(&self, to_server: Way, to_client: Way) {
        self.weather.send_modify(|weather| (weather.to_server, weather.to_client) = (to_server, to_client));
    }

    /// Resets every connection there is.
    pub fn reset(&self) {
        self.weather.send_modify(|weather| weather.resets += 1);
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, weather: watch::Receiver<Weather>) {
    let mut number = 0;
    // It ends with its runtime; a connection that could not be accepted is its client's to make again.
    loop {
        if let Ok((client, _)) = listener.accept().await {
            number += 1;
            tokio::spawn(relay(client, server, weather.clone(), number));
        }
    }
}

/// Moves data both ways until one side has ended or the connection is to be reset.
async fn relay(
    mut client: TcpStream,
    server: SocketAddr,
    mut weather: watch::Receiver<Weather>,
    number: u64,
) {
    let resets = weather.borrow_and_update().resets;
    let Ok(mut server) = TcpStream::connect(server).await else { return reset(&client) };
    // Small answers must not wait for each other here.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let is_broken = {
        let pump = |way, seed| Pump { weather: weather.clone(), way, dice: Dice::new(seed), number };
        let (up, down) =
            (pump(|weather| weather.to_server, number), pump(|weather| weather.to_client, !number));
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        tokio::select! {
            ended = async { tokio::try_join!(up.run(from_client, to_server), down.run(from_server, to_client)) } => {
                ended.is_err()
            }
            _ = weather.wait_for(|weather| weather.resets != resets) => true,
        }
    };
    if is_broken {
        reset(&client);
        reset(&server);
    }
}

/// Closed from here on, it ends with a reset rather than a goodbye.
fn reset(stream: &TcpStream) {
    // One that is closed already has nothing to reset.
    let _ = stream.set_zero_linger();
}

/// Moves data one way.
struct Pump {
    weather: watch::Receiver<Weather>,
    way: fn(&Weather) -> Way,
    dice: Dice,
    /// Of its connection.
    number: u64,
}

impl Pump {
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        let mut has_lost = false;
        loop {
            let length = tokio::select! {
                length = from.read(&mut buffer) => length?,
                () = self.until(|way| way != Way::Lost), if has_lost => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            };
            let way = (self.way)(&self.weather.borrow());
            match way {
                Way::Lost if self.number.is_multiple_of(2) && length > 0 => {
                    has_lost = true;
                    continue;
                }
                Way::Slow { least_ms, most_ms } => tokio::time::sleep(self.dice.ms(least_ms, most_ms)).await,
                Way::Open | Way::Held | Way::Lost => {}
            }
            self.until(|way| way != Way::Held).await;
            if length == 0 {
                return to.shutdown().await;
            }
            to.write_all(&buffer[..length]).await?;
        }
    }

    async fn until(&mut self, is_so: impl Fn(Way) -> bool) {
        let way = self.way;
        // Its sender ends with everything else here.
        let _ = self.weather.wait_for(|weather| is_so(way(weather))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    const A_MOMENT: Duration = Duration::from_millis(300);

    /// A connection through a proxy to a server that says back what it hears.
    fn echo() -> (Proxy, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        let proxy = Proxy::to(port).unwrap();
        let stream = connect(&proxy);
        (proxy, stream)
    }

    fn connect(proxy: &Proxy) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn says(stream: &mut std::net::TcpStream, word: &[u8; 2]) -> io::Result<[u8; 2]> {
        stream.write_all(word)?;
        hears(stream)
    }

    fn hears(stream: &mut std::net::TcpStream) -> io::Result<[u8; 2]> {
        let mut heard = [0; 2];
        stream.read_exact(&mut heard)?;
        Ok(heard)
    }

    #[test]
    fn what_is_held_up_in_either_direction_arrives_when_the_way_is_open() {
        for (to_server, to_client) in [(Way::Held, Way::Open), (Way::Open, Way::Held)] {
            let (proxy, mut stream) = echo();
            assert_eq!(&says(&mut stream, b"hi").unwrap(), b"hi");
            proxy.set(to_server, to_client);
            stream.set_read_timeout(Some(A_MOMENT)).unwrap();
            assert_eq!(says(&mut stream, b"ho").unwrap_err().kind(), io::ErrorKind::WouldBlock);
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            proxy.set(Way::Open, Way::Open);
            assert_eq!(&hears(&mut stream).unwrap(), b"ho");
        }
    }

    #[test]
    fn a_reset_ends_the_connections_there_are_and_no_later_ones() {
        let (proxy, mut stream) = echo();
        assert_eq!(&says(&mut stream, b"hi").unwrap(), b"hi");
        proxy.reset();
        assert_eq!(hears(&mut stream).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(&says(&mut connect(&proxy), b"hi").unwrap(), b"hi");
    }

    #[test]
    fn a_connection_that_lost_data_is_of_no_use_any_more() {
        let (proxy, mut first) = echo();
        let mut second = connect(&proxy);
        for stream in [&mut first, &mut second] {
            assert_eq!(&says(stream, b"hi").unwrap(), b"hi");
        }
        proxy.set(Way::Lost, Way::Open);
        assert_eq!(&says(&mut first, b"ho").unwrap(), b"ho");
        second.write_all(b"ho").unwrap();
        second.set_read_timeout(Some(A_MOMENT)).unwrap();
        assert_eq!(hears(&mut second).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        second.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        proxy.set(Way::Open, Way::Open);
        assert_eq!(hears(&mut second).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
