"""`stw completion`: what a shell needs to complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

PROGRAMS = ("stw", "stellwerk")
HOW = {
    "bash": 'eval "$(stw completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(stw completion zsh)"    in ~/.zshrc',
    "fish": "stw completion fish | source    in ~/.config/fish/config.fish",
}


@click.command("completion", epilog='Example: eval "$(stw completion bash)"')
@click.argument("shell", type=click.Choice(list(HOW)))
def command(shell: str) -> None:
    """Print the script that completes `stw` and `stellwerk` in your shell.

    Put this line into the start file of bash or zsh: `eval "$(stw completion bash)"`; of fish:
    `stw completion fish | source`.
    """
    from stellwerk.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None, shell
    for program in PROGRAMS:
        variable = f"_{program.upper()}_COMPLETE"
        script = kind(cli, {}, program, variable)
        click.echo(script.source_template % script.source_vars())
    click.echo(f"# {HOW[shell]}")
