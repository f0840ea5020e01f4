import { createRootRoute, Link } from '@tanstack/react-router'
import { Shell } from './shell/shell.tsx'
import { Page } from './ui/page.tsx'
import { Empty } from './ui/states.tsx'

export const rootRoute = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <Page title="Not found">
      <Empty title="There is no such page">
        <Link to="/" className="button">
          Go to the overview
        </Link>
      </Empty>
    </Page>
  ),
})
