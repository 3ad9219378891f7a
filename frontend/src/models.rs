//! `/v1/models`: the names under which the model is known.
//!
//! In: a request. Out: cards, in the shape of the API that asks. Nothing is held.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};

use crate::App;
use crate::error::{ApiError, of_anthropic};

/// When the model came, as cards tell it: 2026-09-21.
const CREATED: (u64, &str) = (1_790_000_000, "2026-09-21T14:13:20Z");

/// Lists all names.
pub(crate) async fn all(State(app): State<Arc<App>>, headers: HeaderMap) -> Json<Value> {
    let names = app.models.all();
    let context = app.engine.context();
    let cards: Vec<Value> = names.iter().map(|name| card(name, context, of_anthropic(&headers))).collect();
    Json(if of_anthropic(&headers) {
        json!({"data": cards, "has_more": false, "first_id": names.first(), "last_id": names.last()})
    } else {
        json!({"object": "list", "data": cards})
    })
}

/// Shows one.
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Path(model): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    app.models.knows(&model)?;
    Ok(Json(card(&model, app.engine.context(), of_anthropic(&headers))))
}

fn card(name: &str, context: Option<u64>, anthropic: bool) -> Value {
    let (seconds, date) = CREATED;
    if anthropic {
        return json!({"type": "model", "id": name, "display_name": name, "created_at": date});
    }
    let mut card = json!({"id": name, "object": "model", "created": seconds, "owned_by": "kimi-xtml"});
    if let Some(context) = context {
        card["max_model_len"] = context.into();
    }
    card
}
