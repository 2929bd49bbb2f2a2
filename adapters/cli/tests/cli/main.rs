//! The program from outside: its command line, its output and exit status, its processes.

mod attack;
mod back;
mod bad_input;
mod budget;
mod damage;
mod demo;
mod examples;
mod gc;
mod jobs;
mod kill;
mod live;
mod model;
mod postgres;
mod read;
mod revise;
mod shown;
mod steer;
mod work;
mod world;
