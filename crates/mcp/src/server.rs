//! The protocol: what this server is, what it has, and passing calls on. All revisions that the SDK knows are served, with
//! and without a handshake.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::operator::Operator;
use crate::run::RunSide;
use crate::{habit, resource};

/// Who is spoken for.
#[derive(Clone)]
pub enum Side {
    /// A run.
    Run(RunSide),
    /// An operator.
    Operator(Operator),
}

impl Side {
    fn instructions(&self) -> &'static str {
        match self {
            Self::Run(_) => crate::run::INSTRUCTIONS,
            Self::Operator(_) => crate::operator::INSTRUCTIONS,
        }
    }

    fn tools(&self) -> Vec<Tool> {
        match self {
            Self::Run(_) => crate::run::tools(),
            Self::Operator(operator) => operator.tools(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    side: Side,
}

impl Server {
    pub(crate) fn new(side: Side) -> Self {
        Self { side }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let has = ServerCapabilities::builder().enable_prompts().enable_tools().enable_resources();
        ServerConfig::new(has.build())
            .with_server_info(Implementation::new("bell", env!("CARGO_PKG_VERSION")).with_title("Bellwether"))
            .with_instructions(self.side.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.side.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.side.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let done = match &self.side {
            Side::Run(run) => run.act(&request.name, arguments, context.ct.cancelled()).await,
            Side::Operator(operator) => operator.act(&request.name, arguments).await,
        };
        let unknown = || ErrorData::invalid_params(format!("there is no tool called {}", request.name), None);
        Ok(done.ok_or_else(unknown)?.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let found = match &self.side {
            Side::Run(run) => run.resources().await?,
            Side::Operator(operator) => operator.resources().await?,
        };
        Ok(ListResourcesResult::with_all_items(found))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates = resource::templates_of_runs();
        if matches!(self.side, Side::Operator(_)) {
            templates.insert(0, resource::template_of_agents());
        }
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let named = resource::Named::parse(&request.uri).ok_or_else(|| resource::unknown(&request.uri))?;
        let read = match &self.side {
            Side::Run(run) => run.read(&named).await,
            Side::Operator(operator) => operator.read(&named).await,
        };
        Ok(read?.ok_or_else(|| resource::unknown(&request.uri))?.into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![habit::prompt()]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != habit::NAME {
            let unknown = format!("there is no prompt called {}; there is {}", request.name, habit::NAME);
            return Err(ErrorData::invalid_params(unknown, None));
        }
        Ok(habit::words().into())
    }
}
