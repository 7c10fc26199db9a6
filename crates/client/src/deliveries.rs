//! What was told from outside, over HTTP: each method is one of `bell_control`, with the same answer.

use bell_api::control::deliveries::{
    DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryQuery, DeliveryShown, RedeliverRequest,
};

use crate::client::Client;
use crate::control::segment;
use crate::failure::Failure;

impl Client {
    /// Deliveries, the latest first.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn deliveries(&self, query: &DeliveriesQuery) -> Result<DeliveriesAnswer, Failure> {
        self.look("/v1/deliveries", query).await
    }

    /// Everything that is on record of a delivery.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn delivery(&self, id: &str, query: &DeliveryQuery) -> Result<DeliveryShown, Failure> {
        self.look(&format!("/v1/deliveries/{}", segment(id)), query).await
    }

    /// Tells a delivery again. Sent once: what [`Failure::Unknown`] may have done, the list of deliveries tells.
    ///
    /// # Errors
    /// [`Failure`], which says why.
    pub async fn redeliver(&self, id: &str, request: &RedeliverRequest) -> Result<DeliveryAnswer, Failure> {
        self.post(&format!("/v1/deliveries/{}/replay", segment(id)), request).await
    }
}
