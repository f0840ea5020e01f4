import { Command } from 'commander'
import type { Config } from '../../config/config.ts'
import { asClient } from '../print.ts'

const listenHelp = `
The endpoint is on this machine's loopback address, so the service must run here and allow such addresses, as it does in
the development profile. Each call is verified, printed as one line and forwarded with the same headers and bytes; the
service gets the status that the forwarding target returns. Ctrl-C or SIGTERM removes the webhook; the exit code is then 0,
and 1 after an error.`

/** Creates `plinth webhooks list|listen|trigger`, a client for a local or remote service. */
export function webhooksCommand(configuration: () => Config): Command {
  const webhooks = new Command('webhooks')
  asClient(webhooks.command('list'))
    .description('List your webhooks, newest first')
    .option('--json', 'print JSON')
    .action(async (options) => (await import('./actions.ts')).listWebhooks(configuration(), options))
  asClient(webhooks.command('listen'))
    .description('Receive events on this machine while the command runs')
    .option('--forward <url>', 'where to forward them, such as http://localhost:3000/hook')
    .option('--events <event>', "events to receive: a name such as report.completed, 'report.*', or '*'", '*')
    .addHelpText('after', listenHelp)
    .action(async (options) => (await import('./listen.ts')).listen(configuration(), options))
  asClient(webhooks.command('trigger'))
    .description('Send the example of an event to one of your webhooks, as a test')
    .argument('<event>', 'name of the event, such as report.completed')
    .option('--webhook <id>', 'the webhook (default: your newest active one that subscribes to the event)')
    .addHelpText('after', '\nThe exit code is 0 if the endpoint responds with 2xx, otherwise 1.')
    .action(async (event, options) => (await import('./actions.ts')).trigger(configuration(), event, options))
  return webhooks
}
